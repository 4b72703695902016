// What a page is made of; see app/ui/README.md for an example of each.

export * from "./button";
export * from "./dialog";
export * from "./floating";
export * from "./form";
export * from "./page";
export * from "../frame/hooks";
export { register } from "../frame/mount";
