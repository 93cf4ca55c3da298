// The page of a node. It asks /v1/ every other second and draws what that says. Its address says what is shown, so that
// it can be given to others: #/ is all lanes, #/lanes/NAME one, #/messages/ID a message, #/messages?state=… a list,
// #/dead/TOPIC dead letters.
import { ago, clock, clocks, content, el, fill, foreign, isolated, lasting, nodes, said, sentence, state } from "./text.js";
import { nodeName, read, redraw, seen } from "./node.js";
import { judge, onSteer, outages, showLane, showLanes } from "./lanes.js";
import { find, findAgain, leave, list, showFailure } from "./messages.js";
import { beginDead, showDead } from "./dead.js";
import { showCharts } from "./charts.js";
import { showQueues } from "./queues.js";

const every = 2000, most = 8; // how often it looks, and how many reasons it gives
const $ = (id) => document.getElementById(id);

function verdict(kind, text, reasons) {
  const v = $("verdict");
  if (v.textContent !== text) v.textContent = text;
  v.className = "verdict " + kind;
  document.title = text + " · " + (view.title ? view.title + " · " : "") + "Chronos";
  $("reasons").hidden = reasons.length === 0;
  const shown = reasons.length > most + 1 ? reasons.slice(0, most) : reasons;
  redraw($("reasons").firstElementChild, [...shown.map((r) => el("li", {}, r)),
    ...(shown.length < reasons.length ? [el("li", {}, `and ${reasons.length - most} more: see `, el("a", { href: "#/", "data-key": "more" }, "all lanes"), ".")] : [])]);
}

// ---- Where the address leads

let view = { name: "all" }, begun = false; // before the node has answered once, there is nothing to show

/** Reads the address. */
function parse(hash) {
  const [path, query = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const [first, ...rest] = path.split("/");
  try {
    const name = decodeURIComponent(rest.join("/"));
    if (first === "lanes" && name) return { name: "lane", lane: name, title: isolated(name) };
    if (first === "messages" && name) return { name: "message", id: name, title: isolated(name) };
    if (first === "dead") return { name: "dead", topic: name, query: new URLSearchParams(query), title: "Dead letters" };
    if (first === "messages") return { name: "list", query: new URLSearchParams(query), title: "Messages" };
  } catch { return { name: "lost" }; } // it was cut within a %
  return { name: path === "" ? "all" : "lost" };
}

/** Shows what the address leads to. */
async function go({ moved = true } = {}) {
  if (!begun) return;
  view = parse(location.hash);
  for (const section of document.querySelectorAll("[data-view]")) section.classList.toggle("away", !section.dataset.view.split(" ").includes(view.name));
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === { all: "#/", list: "#/messages", message: "#/messages", dead: "#/dead" }[view.name]) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (moved) $("outcome").hidden = true;
  leave();
  if (view.name === "message") { fill($("id"), view.id); await find(view.id, false); }
  if (view.name === "lane") {
    showLane(view.lane);
    const query = new URLSearchParams({ lane: view.lane });
    $("lane-messages").href = "#/messages?" + query;
    query.set("state", "overdue");
    $("lane-overdue").href = "#/messages?" + query;
  }
  if (view.name === "list") await list(view.query);
  if (view.name === "dead") await showDead(view.topic, view.query);
}
addEventListener("hashchange", () => { scrollTo(0, 0); go(); });

$("find").addEventListener("submit", (e) => {
  e.preventDefault();
  const to = "#/messages/" + encodeURIComponent(content($("id")).trim() || content($("id")));
  if (location.hash === to) go(); else location.hash = to;
});

// A key by itself leads to the search, unless somebody is writing.
addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, textarea, select, dialog")) return;
  e.preventDefault();
  $("id").focus(); $("id").select();
});
$("skip").addEventListener("click", (e) => { e.preventDefault(); $("content").focus(); $("content").scrollIntoView(); });

// ---- Nodes and positions

function showNodes(all) {
  redraw($("nodes").tBodies[0], all.nodes.map((n) => el("tr", {},
    el("th", { scope: "row" }, foreign(n.host || "?"), n.id === seen.info.node ? " (this one)" : "", el("div", { class: "small" }, el("code", {}, n.id))),
    el("td", { class: "state" }, n.silent ? state("bad", "✖", "silent") : n.status.ready ? state("good", "✔", "ready") : state("warn", "▲", "not ready"),
      Object.entries(n.status.troubles ?? {}).map(([lane, t]) => el("div", { class: "small" }, foreign(lane), ": ", said(t.cause || t.error)))),
    el("td", { class: "name", "data-label": "Version" }, foreign(n.version)),
    el("td", { "data-label": "Runs for" }, lasting((new Date(n.seen) - new Date(n.started)) / 1000)),
    el("td", { "data-label": "Seen" }, ago(n.seen, Date.now() + clocks.storeAhead)))));
  $("nodes-none").hidden = all.nodes.length > 0;
  redraw($("differences"), all.differences.map((d) => el("p", {}, state("warn", "▲", "They differ in ", foreign(d.setting), ": "),
    Object.entries(d.values).map(([v, ids], i) => [i ? "; " : "", foreign(v || "(empty)"), " on ", ids.map((id, j) => [j ? ", " : "", foreign(nodeName(id))])]))));
}

function showPositions(all) {
  redraw($("positions").tBodies[0], all.positions.map((p) => el("tr", {},
    el("th", { scope: "row" }, foreign(p.topic)), el("td", { class: "n", "data-label": "Partition" }, String(p.partition)),
    el("td", { class: "n", "data-label": "Taken in up to" }, p.offset.toLocaleString("en")),
    el("td", { "data-label": "Catches up to" }, p.mark === undefined ? "–" : p.mark.toLocaleString("en")))));
  $("positions-none").hidden = all.positions.length > 0;
}

// ---- Again and again

let told = null; // when all was told last

/** Says of the tables whether they are those of now. */
function fresh(now) {
  if (now) told = Date.now();
  $("stale").hidden = now;
  $("stale").replaceChildren(...nodes(told === null ? "▲ What follows cannot be told yet."
    : ["▲ What follows is from ", clock(told), `, ${lasting((Date.now() - told) / 1000)} ago.`]));
}

/** Says which node this is: by its host, as soon as that is known. */
function showAbout() {
  const { node, version, control } = seen.info, host = seen.nodes?.nodes.find((n) => n.id === node)?.host;
  $("about").replaceChildren(...nodes(["node ", host ? [foreign(host), ` (${node.slice(0, 8)})`] : foreign(node || "…"),
    version ? [" · ", foreign(version)] : "", control ? "" : " · read only"]));
}

async function look() {
  try {
    seen.info = await read("v1/info");
    showAbout();
    const [lanes, all, positions] = await Promise.all([read("v1/lanes"), read("v1/nodes"), read("v1/positions")]);
    fresh(true);
    clocks.ahead = new Date(lanes.at) - Date.now(); clocks.storeAhead = new Date(all.at) - Date.now();
    seen.lanes = lanes; seen.nodes = all;
    showAbout();
    showLanes(lanes); showNodes(all); showPositions(positions);
    const { bad, warn } = judge(lanes, all);
    if (bad.length) verdict("bad", "✖ It is not well", [...bad, ...warn]);
    else if (warn.length) verdict("warn", "▲ Look at this", warn);
    else verdict("good", "✔ All is well", []);
  } catch (e) {
    fresh(false);
    if (seen.info.problems?.length && !(e instanceof TypeError)) verdict("bad", "✖ It is not well", outages());
    else verdict("bad", "✖ It cannot be told", [said(sentence(e.message))]);
  }
  if (!begun) { begun = true; await go({ moved: false }); }
  if (view.name === "lane") showLane(view.lane);
  await beginDead();
  await showQueues();
  await findAgain();
  await showCharts();
}
onSteer(look, showFailure);

(async () => {
  for (;;) {
    if (!document.hidden || !begun) await look();
    await new Promise((resolve) => setTimeout(resolve, every));
  }
})();
