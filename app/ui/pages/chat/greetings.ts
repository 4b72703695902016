// What a model is asked first: what it is good at.

interface Greeting {
  fits: (model: any) => boolean; // tried in order
  title: (model: any) => string;
  body: (where: string) => string; // where rounds are seen
  examples: { label: string; text: string }[];
}

export const greetings: Greeting[] = [
  {
    fits: (model) => model.pip,
    title: () => "Hello, I am Pip.",
    body: (where) =>
      `I am a small model trained for this app, and its guide. While I write, a smaller draft guesses ahead and I check its guesses. Watch the rounds ${where}.`,
    examples: [
      { label: "Ask the guide", text: "What is speculative decoding?" },
      { label: "Tell a story", text: "Tell me a short tale about a fox and a lantern." },
      { label: "Make JSON", text: "Write JSON for a person: name Ada, age 36, city London." },
      {
        label: "Rewrite",
        text: "Change the name Mara to Jonas in this note:\n\nMara promised to bring the lamp to the harbour. On Friday Mara will visit the market. Please tell Mara that the shop is closed.",
      },
      { label: "Introduce yourself", text: "Hi, my name is Mira." },
      { label: "Ask about draft depth", text: "What depth is good for JSON?" },
    ],
  },
  {
    fits: (model) => /cod(e|er|ing)\b|star-?coder|codestral|devstral/i.test(model.greeting),
    title: (model) => `${model.greeting} is ready.`,
    body: (where) =>
      `It was trained on code. Watch each drafted token being checked ${where}. Repetitive code speeds up most.`,
    examples: [
      {
        label: "Write a function",
        text: "Write a Python function that merges two sorted lists into one sorted list, with type hints and a docstring.",
      },
      {
        label: "Rename a variable",
        text: "Rename `n` to `count` in this function and return the full function:\n\ndef total(n, price):\n    if n < 0:\n        raise ValueError(n)\n    return n * price",
      },
      {
        label: "Explain",
        text: "Explain what this does, in three sentences:\n\nsorted(words, key=lambda w: (-len(w), w))[:10]",
      },
      {
        label: "Find the bug",
        text: "Find the bug in this function and fix it:\n\ndef mean(values):\n    total = 0\n    for value in values:\n        total += value\n        return total / len(values)",
      },
      {
        label: "Write tests",
        text: "Write three pytest tests for a function slugify(title: str) -> str that makes a URL-friendly title.",
      },
      {
        label: "Write SQL",
        text: "Write SQL for the ten customers with the highest total of orders in 2024, from tables customers(id, name) and orders(id, customer_id, total, ordered_on).",
      },
    ],
  },
  {
    fits: () => true,
    title: (model) => `${model.greeting} is ready.`,
    body: (where) => `Ask anything. Watch each drafted token being checked ${where}.`,
    examples: [
      { label: "Explain", text: "Explain in five sentences why the sky is blue." },
      {
        label: "Rewrite",
        text: "Rewrite this note in a friendly tone and keep every fact:\n\nThe meeting is moved to Friday, 10 o'clock, room 4. Bring the report. Tell Mara.",
      },
      { label: "Make JSON", text: "Write JSON for a person: name Ada, age 36, city London." },
      { label: "Tell a story", text: "Tell me a short tale about a fox and a lantern." },
    ],
  },
];
