// Forms and their controls. Each control has `value` and `onChange(value)`. With a `label` it is a field: the label is
// over the control, a hint under it.

import { Search } from "lucide";
import { Icon } from "./button";
import { useUniqueId } from "../frame/hooks";
import type { ComponentChild, ComponentChildren, JSX } from "preact";

// A form that does not load the page again.
type FormProps = Omit<JSX.IntrinsicElements["form"], "onSubmit"> & { onSubmit: () => void };
export function Form({ onSubmit, ...rest }: FormProps) {
  const submit = (event: Event) => {
    event.preventDefault();
    onSubmit();
  };
  return <form {...rest} onSubmit={submit} />;
}

// What every control may have. `class` is that of the field, or of the control if it has no label.
type ControlProps = Omit<JSX.IntrinsicElements["input"], "label" | "list" | "onChange" | "value" | "class"> & {
  label?: string;
  hint?: ComponentChildren;
  class?: string;
  list?: string; // the id of a datalist
};
const Hint = ({ id, text }: { id: string; text?: ComponentChildren }) =>
  text ? <span class="ft-hint" id={id} children={text} /> : null;

// Returns a control's attributes, and what draws its field around it.
function useField({ label, hint, class: look = "", ...rest }: ControlProps) {
  const own = useUniqueId();
  const id = rest.id ?? (label ? own : undefined);
  const described = hint ? `${id}-hint` : undefined;
  const attributes: any = {
    "aria-describedby": described,
    ...rest,
    id,
    class: label ? "ft-input" : `ft-input ${look}`,
  };
  const field = (control: ComponentChild) =>
    label ? (
      <div class={`ft-field ft-stack ft-gap-1 ${look}`}>
        <label for={id}>{label}</label>
        {control}
        <Hint id={`${id}-hint`} text={hint} />
      </div>
    ) : (
      control
    );
  return { attributes, field };
}

// Returns what binds a control to a field of `values` by its name; `change` takes what was changed.
export const bound =
  <Values extends object>(values: Values, change: (changed: Partial<Values>) => void) =>
  <Name extends keyof Values & string>(name: Name) => ({
    name,
    value: values[name],
    onChange: (value: Values[Name]) => change({ [name]: value } as unknown as Partial<Values>),
  });

// A line of text, or several if `lines` is given. `onDone` is called when it is left or Enter is pressed.
type TextProps = ControlProps & {
  value: string;
  onChange?: (value: string) => void;
  onDone?: (value: string) => void;
  lines?: number;
};
export function TextInput({ value, onChange, onDone, lines, ...rest }: TextProps) {
  const { attributes, field } = useField(rest);
  const read = (event: Event) => (event.currentTarget as HTMLInputElement).value;
  const own = {
    ...attributes,
    value,
    onInput: (event: Event) => onChange?.(read(event)),
    onChange: (event: Event) => onDone?.(read(event)),
  };
  if (lines) return field(<textarea rows={lines} {...own} />);
  return field(<input type="text" autocomplete="off" spellcheck={false} {...own} />);
}

// A number, null if it is empty. `onDone` is called when it is left or Enter is pressed. `slider`: with one beside it.
type NumberProps = ControlProps & {
  value?: number | null;
  onChange?: (value: number | null) => void;
  onDone?: (value: number | null) => void;
  slider?: boolean;
};
export function NumberInput({ value, onChange, onDone, slider = false, ...rest }: NumberProps) {
  const { attributes, field } = useField(rest);
  const { min, max, step, disabled } = rest;
  const read = (event: Event) => {
    const { valueAsNumber } = event.currentTarget as HTMLInputElement;
    return Number.isNaN(valueAsNumber) ? null : valueAsNumber;
  };
  const own = {
    value: value ?? "",
    onInput: (event: Event) => onChange?.(read(event)),
    onChange: (event: Event) => onDone?.(read(event)),
  };
  const number = <input type="number" {...attributes} {...own} />;
  if (!slider) return field(number);
  return field(
    <div class="ft-range ft-row">
      <input type="range" tabIndex={-1} aria-hidden="true" {...{ min, max, step, disabled }} {...own} />
      {number}
    </div>,
  );
}

type Option = { id: string; label: string; disabled?: boolean };
// Texts, what has a label, or labels by value.
type Options = (string | Option)[] | Record<string, string>;
const listed = (options: Options): Option[] =>
  Array.isArray(options)
    ? options.map((each) => (typeof each === "string" ? { id: each, label: each } : each))
    : Object.entries(options).map(([id, label]) => ({ id, label }));

// A choice of one.
type SelectProps = ControlProps & { value: string; options: Options; onChange: (value: string) => void };
export function Select({ value, options, onChange, ...rest }: SelectProps) {
  const { attributes, field } = useField(rest);
  return field(
    <select {...attributes} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {listed(options).map(({ id, label, disabled }) => (
        <option key={id} value={id} disabled={disabled} selected={id === value}>
          {label}
        </option>
      ))}
    </select>,
  );
}

// A switch with its label beside it.
type ToggleProps = Omit<ControlProps, "label"> & { label: string; value: boolean; onChange: (value: boolean) => void };
export function Toggle({ label, value, onChange, hint, class: look = "", ...rest }: ToggleProps) {
  const id = useUniqueId();
  return (
    <div class={`ft-toggle ${look}`}>
      <input
        {...rest}
        type="checkbox"
        role="switch"
        id={id}
        checked={value}
        aria-describedby={hint ? `${id}-hint` : undefined}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      <Hint id={`${id}-hint`} text={hint} />
    </div>
  );
}

// A choice of one among cards, each with a hint.
type ChoicesProps = {
  label: string;
  name: string;
  value: string;
  onChange: (value: string) => void;
  options: (Option & { hint?: ComponentChildren })[];
};
export function Choices({ label, name: group, value, onChange, options }: ChoicesProps) {
  const own = useUniqueId();
  return (
    <fieldset class="ft-choices">
      <legend>{label}</legend>
      {options.map(({ id, label: name, disabled, hint }) => (
        <label key={id} class="ft-choice ft-box">
          <input
            type="radio"
            {...{ name: group, value: id, disabled }}
            checked={id === value}
            aria-describedby={hint ? `${own}-${id}` : undefined}
            onChange={() => onChange(id)}
          />
          <span>{name}</span>
          <Hint id={`${own}-${id}`} text={hint} />
        </label>
      ))}
    </fieldset>
  );
}

type SearchBoxProps = { label: string; value: string; onChange: (value: string) => void };
export const SearchBox = ({ label, ...rest }: SearchBoxProps) => (
  <label class="search-box">
    <Icon of={Search} size={15} />
    <TextInput type="search" class="chat-search" placeholder={label} aria-label={label} {...rest} />
  </label>
);
