// Every word that is drawn inside a reply.

// The time first, "" if it is unknown.
type Parts = string[];

export const words = {
  thinking: (parts: Parts) => ["Thinking", ...parts.filter(Boolean)].join(", "),
  thought: ([time, ...more]: Parts) => [time ? `Thought for ${time}` : "Thought", ...more].join(", "),
  thoughtCut: ([time, ...more]: Parts) => [time ? `Thought for ${time}` : "Thought", ...more, "cut off"].join(", "),
  plainCode: "text",
  copy: "Copy",
  copied: "Copied",
  image: (name: string) => (name ? `Image: ${name}` : "Image"),
  imageHint: "Foretoken loads no images from the web. Open the link to see it.",
};
