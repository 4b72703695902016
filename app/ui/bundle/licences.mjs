// The licences of the packages that are in a bundle, as one text.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

const PACKAGE = /node_modules\/((?:@[^/]+\/)?[^/]+)\//;

// `built`: esbuild's results, each with a metafile.
export function licences(root, built) {
  const inputs = built.flatMap(({ metafile }) => Object.keys(metafile.inputs));
  const names = new Set(inputs.map((path) => path.match(PACKAGE)?.[1]).filter(Boolean));
  return [...names]
    .sort()
    .map((name) => licence(root, name))
    .join("\n");
}

function licence(root, name) {
  const folder = join(root, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = readFileSync(join(folder, file), "utf8")
    .replace(/[ \t]+$/gm, "")
    .trim();
  return `${name} ${version} (${license})\n${"=".repeat(72)}\n\n${text}\n`;
}
