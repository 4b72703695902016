// Bundles the pages into assets/ui, which is committed: users need no node. `--check` writes nothing and fails if a
// bundle is out of date.

import { build } from "esbuild";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { licences } from "./licences.mjs";

const ROOT = resolve(import.meta.dirname, "..");
const OUT = resolve(ROOT, "../../assets/ui");
const FONTS = join(OUT, "fonts"); // holds nothing but what is built

// KaTeX is loaded when a reply has a formula. The bundle names its file beside itself.
const onDemand = {
  name: "on-demand",
  setup({ onResolve }) {
    onResolve({ filter: /^katex$/ }, ({ kind }) =>
      kind === "dynamic-import" ? { path: "./katex.js", external: true } : undefined,
    );
  },
};

// Fonts come as woff2 only, which every browser since 2016 reads.
const woff2 = {
  name: "woff2",
  setup({ onLoad }) {
    onLoad({ filter: /katex\.css$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(/,\s*url\([^)]*\.(?:woff|ttf)\) format\("[a-z]+"\)/g, ""),
      loader: "css",
    }));
  },
};

const options = {
  absWorkingDir: ROOT,
  outdir: OUT,
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  legalComments: "none",
  charset: "utf8",
  target: ["chrome120", "firefox121", "safari17.4"],
  assetNames: "fonts/[name]",
  loader: { ".woff2": "file" },
  jsx: "automatic",
  jsxImportSource: "preact",
  plugins: [onDemand, woff2],
};

const built = await Promise.all([
  build({ ...options, format: "esm", entryPoints: { app: "main.ts", katex: "katex" } }),
  build({ ...options, format: "iife", entryPoints: { replay: "shared/replay/file.tsx" } }),
]);
const files = new Map(built.flatMap(({ outputFiles }) => outputFiles).map(({ path, contents }) => [path, contents]));
files.set(join(OUT, "LICENSES.txt"), Buffer.from(licences(ROOT, built)));

const same = (path, contents) => existsSync(path) && readFileSync(path).equals(contents);
const changed = [...files].filter(([path, contents]) => !same(path, contents));
const stale = (existsSync(FONTS) ? readdirSync(FONTS) : [])
  .map((name) => join(FONTS, name))
  .filter((path) => !files.has(path));

if (process.argv.includes("--check")) {
  for (const path of [...changed.map(([each]) => each), ...stale])
    console.error(`${relative(process.cwd(), path)} is out of date: run npm --prefix app/ui run build`);
  process.exitCode = changed.length + stale.length ? 1 : 0;
} else {
  for (const [path, contents] of changed) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, contents);
  }
  for (const path of stale) rmSync(path);
}
