// The last 15 minutes of this node, which keeps them itself: a page that is opened in an incident shows how it began.
import { el, roughly } from "./text.js";
import { read } from "./node.js";

const $ = (id) => document.getElementById(id);
const span = 15 * 60e3;
let moments = [], missing = false;

const perSecond = (v) => (v >= 100 ? Math.round(v).toLocaleString("en") : v.toFixed(1));

function draw(svg, points, end, gap, format) {
  const top = Math.max(...points.map((p) => p.v ?? 0), 0), height = top * 1.1 || 1;
  let path = "", before = null;
  for (const p of points) {
    if (p.v === null) { before = null; continue; }
    const x = (600 * (1 - (end - p.at) / span)).toFixed(1), y = (58 - Math.max(p.v, 0) / height * 54).toFixed(1);
    path += before !== null && p.at - before <= gap ? `L${x} ${y}` : `M${x} ${y}h2`;
    before = p.at;
  }
  const ns = "http://www.w3.org/2000/svg";
  const shape = (name, attributes) => {
    const e = document.createElementNS(ns, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    return e;
  };
  svg.replaceChildren(shape("line", { x1: 0, x2: 600, y1: 58, y2: 58, class: "grid" }), shape("path", { d: path, class: "curve" }));
  const most = top > 0 ? "at most " + format(top) : "none";
  svg.nextElementSibling.replaceChildren(el("span", {}, "15 min ago"), el("span", {}, most), el("span", {}, "now"));
  svg.setAttribute("aria-label", `${svg.id === "rate" ? "Fired in a second" : "Lateness of 99 in 100"} in the last 15 minutes: ${most}`);
}

/** Asks for what has come since, and draws it. */
export async function showCharts() {
  if (missing) return;
  let got;
  try { got = await read("v1/history" + (moments.length ? "?after=" + encodeURIComponent(moments.at(-1).at) : "")); }
  catch (e) {
    missing = e.status === 404; // whoever keeps no history has no charts
    return;
  }
  $("charts").hidden = false;
  const end = new Date(got.at).getTime(), interval = got.seconds;
  moments = moments.concat(got.moments).filter((m) => end - new Date(m.at) <= span);
  const at = (m) => new Date(m.at).getTime();
  const rates = moments.map((m) => ({ at: at(m), v: m.fired / interval })), lates = moments.map((m) => ({ at: at(m), v: m.lateness ?? null }));
  $("rate-now").textContent = rates.length ? perSecond(rates.at(-1).v) : "–";
  const last = lates.findLast((p) => p.v !== null);
  $("late-now").textContent = last ? "under " + roughly(last.v) : "nothing has fired";
  draw($("rate"), rates, end, 3000 * interval, perSecond);
  draw($("late"), lates, end, 60000, roughly);
}
