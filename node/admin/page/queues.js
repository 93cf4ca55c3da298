// The queues on the page of a node: as a tree, with what keeps them closed, what runs, and when they are open this week.
// They are asked for as long as there are any besides root.
import { ago, clocks, el, foreign, state } from "./text.js";
import { read, redraw } from "./node.js";

const week = 7 * 86400e3, weekly = 30e3; // how far the bars go, and how often they are asked for anew
let none = false, bars = { at: 0, of: new Map() };

/** Returns the queues in the order of a tree, each with how deep it lies: below those that contain it. */
function tree(queues) {
  const at = new Map();
  for (const q of queues) for (const path of q.paths) at.set(path, q.name);
  const place = (q) => {
    const path = q.paths[0] ?? "";
    let depth = 0;
    for (let i = path.indexOf("/", 1); i > 0; i = path.indexOf("/", i + 1)) if (at.has(path.slice(0, i))) depth++;
    return { q, depth, key: path };
  };
  const segments = (key) => key.split("/");
  return queues.map(place).sort((a, b) => {
    const x = segments(a.key), y = segments(b.key);
    for (let i = 0; i < Math.min(x.length, y.length); i++) if (x[i] !== y[i]) return x[i] < y[i] ? -1 : 1;
    return x.length - y.length || (a.q.name < b.q.name ? -1 : 1);
  });
}

/** Draws when a queue is open in the next seven days, and says it for those who see no bars. */
function drawWeek(openings, from) {
  const bar = el("div", { class: "week", role: "img" });
  const said = [];
  for (const o of openings ?? []) {
    const start = Math.max(0, (new Date(o.start) - from) / week), end = Math.min(1, (new Date(o.end) - from) / week);
    const part = el("i");
    part.style.left = 100 * start + "%";
    part.style.width = Math.max(0.4, 100 * (end - start)) + "%";
    bar.append(part);
    said.push(new Date(o.start).toISOString().slice(0, 16).replace("T", " ") + " to " + new Date(o.end).toISOString().slice(0, 16).replace("T", " "));
  }
  const text = said.length ? "Open " + said.slice(0, 5).join("; ") + (said.length > 5 ? "; and more" : "") + ", in UTC" : "Not open in the next seven days";
  bar.setAttribute("aria-label", text);
  bar.setAttribute("title", text);
  return bar;
}

/** Says how a queue is. */
function queueState(q) {
  const then = q.changes ? (q.open ? ", closes " : ", opens ") + ago(q.changes) : "";
  if (q.deleting) return state("warn", "■", "being deleted");
  if (q.open) return state("good", "✔", "open" + then);
  const others = (q.closed_by ?? []).filter((name) => name !== q.name);
  return state("unknown", "■", others.length ? ["closed by ", others.map((name, i) => [i ? ", " : "", foreign(name)])] : "closed", then);
}

/** Shows the queues, or nothing where there are none. */
export async function showQueues() {
  const section = document.getElementById("queues-section");
  if (none) return;
  let all, running;
  const now = Date.now();
  try {
    const anew = now - bars.at > weekly;
    all = await read("v1/queues?limit=500" + (anew ? "&days=7" : ""));
    if (anew) bars = { at: now, of: new Map(all.queues.map((q) => [q.id, q])) };
    else if (all.queues.some((q) => bars.of.get(q.id)?.window !== q.window)) bars.at = 0; // with the next look
    running = all.queues.some((q) => q.running > 0) ? (await read("v1/tasks?status=Running&limit=200")).tasks : [];
  } catch (e) {
    none = e.status === 404; // a store that keeps none
    if (none) section.hidden = true;
    return;
  }
  section.hidden = all.queues.length < 2 && !all.queues.some((q) => q.arrivals > 0);
  const runs = (q) => {
    const names = running.filter((t) => t.queue === q.id).map((t) => t.name || t.id.slice(0, 8));
    if (q.running === 0) return "–";
    return [q.running.toLocaleString("en"), names.length ? [": ", names.slice(0, 3).map((name, i) => [i ? ", " : "", foreign(name)]), q.running > 3 ? ", …" : ""] : ""];
  };
  redraw(document.getElementById("queues").tBodies[0], tree(all.queues).map(({ q, depth }) => {
    const name = el("th", { scope: "row" }, foreign(q.name), el("div", { class: "small" }, [q.kind, ...q.paths].map((part, i) => [i ? " · " : "", foreign(part)])));
    name.style.paddingLeft = 1.2 * Math.min(depth, 8) + "rem";
    return el("tr", {}, name, el("td", { class: "state" }, queueState(q)),
      el("td", { class: "n", "data-label": "Wait" }, q.pending.toLocaleString("en")), el("td", { "data-label": "Run" }, runs(q)),
      el("td", {}, drawWeek(bars.of.get(q.id)?.openings, now + clocks.ahead), el("div", { class: "small" }, foreign(q.window))));
  }));
  document.getElementById("queues-more").hidden = !all.next;
}
