// The script of a reply that was saved as one HTML file; app/ui/rounds/replay_file.py puts it inside.

import { render } from "preact";
import "./file.css";
import { Replay } from "./replay";
import { Timeline } from "./timeline";

const dark = matchMedia("(prefers-color-scheme: dark)");
const apply = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", apply);
apply();

const byId = (id: string) => document.getElementById(id) as HTMLElement;
const { rounds } = JSON.parse(byId("reply").textContent ?? "");
render(<Replay timeline={new Timeline(rounds)} />, byId("replay"));
