// SPDX-License-Identifier: MIT OR Apache-2.0
// Draws a dashboard as a PNG: sends its queries to a real Prometheus or ClickHouse, bundles panels.jsx with the answers, and takes a
// screenshot of the page in Chromium.
//
//   node draw.mjs URL FOLDER MINUTES SCRAPE_SECONDS DASHBOARD.json...
//
// draws the last MINUTES of each dashboard, or the MINUTES before the time UNTIL (2026-11-25T10:40:00Z) in the environment, into a file in
// FOLDER that is named after the dashboard. It needs Chromium, Node.js 20 and, once in this folder,
//
//   npm install --legacy-peer-deps --ignore-scripts --no-package-lock

import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

// Packages are in this folder, or in the folder NODE_MODULES.
const here = path.dirname(fileURLToPath(import.meta.url));
const modules = process.env.NODE_MODULES ?? path.join(here, "node_modules");
const load = createRequire(path.join(modules, "x.js"));
const UPNG = load("upng-js");

const WIDTH = 1200;
/** Colours in the picture. */
const COLOURS = 64;
/** Maximum number of points of a line that Grafana requests. */
const MAX_POINTS = 500;

const [url, out, minutes, scrape, ...files] = process.argv.slice(2);
if (files.length === 0) {
    console.error("usage: node draw.mjs URL FOLDER MINUTES SCRAPE_SECONDS DASHBOARD.json...");
    process.exit(2);
}
const to = process.env.UNTIL ? Date.parse(process.env.UNTIL) : Date.now();
const from = to - Number(minutes) * 60_000;
/** Seconds between two points, and the interval of rates, as Grafana computes them. */
const step = Math.max(Math.ceil((to - from) / 1000 / MAX_POINTS), Number(scrape));
const rate = Math.max(step + Number(scrape), 4 * Number(scrape));

/** Replaces Grafana's variables. All hosts and connections are selected. */
function filledIn(text) {
    const values = {
        __rate_interval: `${rate}s`, __range: `${minutes}m`, __interval_ms: step * 1000, __from: from, __to: to,
    };
    return text.replace(/\$(\w+)/g, (_, name) => values[name] ?? ".+");
}

async function answer(request, body) {
    const response = await fetch(request, body && { method: "POST", body });
    const text = await response.text();
    if (!response.ok) throw new Error(`${request}: ${response.status} ${text}`);
    return JSON.parse(text);
}

/** The answer to a query of a panel, which panels.jsx turns into frames. */
async function ask(target) {
    if (target.rawSql) {
        return answer(url, `${filledIn(target.rawSql)}\nFORMAT JSONCompact`);
    }
    const query = encodeURIComponent(filledIn(target.expr));
    const [start, end] = [from, to].map((time) => Math.floor(time / 1000 / step) * step);
    const request = target.instant
        ? `query?query=${query}&time=${to / 1000}`
        : `query_range?query=${query}&start=${start}&end=${end}&step=${step}`;
    return (await answer(`${url}/api/v1/${request}`)).data.result;
}

/** Omits editors and maps, which are most of Grafana's code and which our panels do not use. */
const leftOut = {
    name: "left out",
    setup(build) {
        const filter = /^(monaco-editor|ol|geotiff|@codemirror|@uiw|slate|react-calendar|@grafana\/faro)/;
        build.onResolve({ filter }, ({ path }) => ({ path, namespace: "left-out" }));
        build.onLoad({ filter: /.*/, namespace: "left-out" }, () => ({ contents: "module.exports = {};" }));
    },
};

async function bundle(folder) {
    await load("esbuild").build({
        entryPoints: [path.join(here, "panels.jsx")],
        outfile: path.join(folder, "panels.js"),
        bundle: true, jsx: "automatic", nodePaths: [modules], plugins: [leftOut], logLevel: "error",
        define: { "process.env.NODE_ENV": '"production"', "process.env": "{}", global: "window" },
        loader: { ".svg": "dataurl", ".ttf": "empty" },
    });
    // Icons are loaded from a folder of this name.
    fs.symlinkSync(path.join(modules, "@grafana/ui/dist/public"), path.join(folder, "build"));
}

function takePicture(folder, height) {
    const picture = path.join(folder, "picture.png");
    execFileSync("chromium", [
        "--headless", "--no-sandbox", "--no-first-run", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
        `--user-data-dir=${path.join(folder, "profile")}`, `--window-size=${WIDTH},${height}`,
        "--virtual-time-budget=1500", `--screenshot=${picture}`, `file://${path.join(folder, "page.html")}`,
    ], { stdio: ["ignore", "ignore", process.env.DEBUG ? "inherit" : "ignore"] });
    const image = UPNG.decode(fs.readFileSync(picture));
    return Buffer.from(UPNG.encode(UPNG.toRGBA8(image), image.width, image.height, COLOURS));
}

async function draw(file, folder) {
    const dashboard = JSON.parse(fs.readFileSync(file, "utf8"));
    const answers = {};
    for (const panel of dashboard.panels) {
        answers[panel.id] = await Promise.all((panel.targets ?? []).map(ask));
        const isEmpty = answers[panel.id].every((one) => (one.data ?? one).length === 0);
        if (panel.targets && isEmpty) console.error(`${dashboard.title}: no data in "${panel.title}"`);
    }
    const input = JSON.stringify({ dashboard, answers, from, to, step, width: WIDTH }).replaceAll("<", "\\u003c");
    const page = `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css"><body><div id="root"></div>
<script>window.__grafana_public_path__ = "./"; window.input = ${input};</script><script src="panels.js"></script>`;
    fs.writeFileSync(path.join(folder, "page.html"), page);
    const height = 38 * Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h)) + 48;
    fs.writeFileSync(path.join(out, `dashboard-${path.basename(file, ".json")}.png`), takePicture(folder, height));
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "mpwatch-picture-"));
try {
    await bundle(folder);
    for (const file of files) await draw(file, folder);
} finally {
    if (process.env.KEEP) console.error(folder);
    else fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
