// Lanes: whether all is well with them, their table, and the view of one.
import { ago, clock, clocks, count, el, foreign, isolated, laneLink, lasting, next, plural, roughly, said, sentence, state, time } from "./text.js";
import { me, nodeName, redraw, remove, seen, send } from "./node.js";
import { confirm } from "./confirm.js";

const $ = (id) => document.getElementById(id);
const cause = (trouble) => said(trouble.cause || trouble.error);
const pausedText = (p) => ["paused ", ago(p.since), p.by ? [" by ", foreign(p.by)] : "", p.reason ? [": ", foreign(p.reason)] : ""];
export const parts = (lane, n = 1) => (lane.startsWith("http:") ? "host" : "partition") + (n === 1 ? "" : "s");

const parkedText = (l) => ["parked: ", parts(l.name, l.parked.length), " ",
  l.parked.slice(0, 5).map((p, i) => [i ? ", " : "", foreign(p.part)]), l.parked.length > 5 ? ` and ${l.parked.length - 5} more` : "",
  l.parked.length === 1 ? " does not answer" : " do not answer"];

// ---- Is it well?

const out = (what, lane) => (seen.info.problems ?? []).some((p) => p.what === what && (!lane || p.lane === lane));

/** Says what does not answer without which nothing comes out of a lane; "" if all does. */
const outOf = (lane) => (out("Kafka") && !lane.startsWith("http:") ? "Kafka does not answer" : out("topic", lane) ? "its topic takes no message" : "");

/** Says what is not well, since when and why, and what that means. */
const problem = (p) => [said(p.says + " since "), clock(p.since),
  `, for ${lasting((Date.now() + clocks.ahead - new Date(p.since)) / 1000)}: `, said(`${p.cause}. ${p.effect}`),
  p.lane ? [" Look at lane ", laneLink(p.lane, "problem"), "."] : ""];
export const outages = () => (seen.info.problems ?? []).map(problem);

/** Returns the live nodes that say that they cannot publish on a lane, and those that do not say so. */
function publishers(lane) {
  const live = (seen.nodes?.nodes ?? []).filter((n) => !n.silent), fails = (n) => n.status.troubles?.[lane] !== undefined;
  return { failing: live.filter(fails), others: live.filter((n) => !fails(n)) };
}

/** Says which nodes cannot publish on a lane: this one, and others that have said so. */
function cannotPublish(lane) {
  const { failing, others } = publishers(lane), elsewhere = failing.filter((n) => n.id !== seen.info.node);
  return ["This node", elsewhere.length ? [" and ", elsewhere.slice(0, 3).map((n, i) => [i ? ", " : "", foreign(nodeName(n.id))]), elsewhere.length > 3 ? ` and ${elsewhere.length - 3} more` : ""] : "",
    " cannot publish on ", laneLink(lane, "trouble"), others.some((n) => n.id !== seen.info.node) && failing.length ? "; the others have said nothing of the kind" : ""];
}

export function judge(lanes, nodes) {
  const bad = outages(), warn = [];
  for (const { l } of rank(lanes.lanes)) {
    const late = l.oldest ? (new Date(lanes.at) - new Date(l.oldest)) / 1000 : 0;
    if (l.paused) warn.push(["Lane ", laneLink(l.name, "paused"), " was ", pausedText(l.paused), "."]);
    else if (late > 5 && !out("lane", l.name)) bad.push(["Lane ", laneLink(l.name, "overdue"), " has ", plural(l.overdue, "overdue message"), `, the oldest for ${roughly(late)}.`]);
    if (l.parked) bad.push(["Of lane ", laneLink(l.name, "parked"), ", messages are ", parkedText(l), ". The others come out."]);
    if (l.trouble && !out("Kafka") && !out("topic", l.name) && !out("lane", l.name)) bad.push([cannotPublish(l.name), ": ", cause(l.trouble), "."]);
    if (!l.served) warn.push(["Messages wait on lane ", laneLink(l.name, "served"), ", which no route of this node has."]);
  }
  const live = nodes.nodes.filter((n) => !n.silent);
  if (live.length === 0) bad.push(["No node says that it lives."]);
  for (const n of nodes.nodes) {
    const name = foreign(nodeName(n.id));
    if (n.silent) warn.push(["Node ", name, " was last seen ", ago(n.seen, Date.now() + clocks.storeAhead), "."]);
    else {
      const why = (n.status.problems ?? []).filter((p) => p.unready);
      if (n.id !== seen.info.node) for (const p of why) bad.push(["Node ", name, ": ", problem(p)]);
      if (!n.status.ready && why.length === 0) bad.push(["Node ", name, " is not ready; its /readyz?verbose says why."]);
    }
    for (const what of n.silent ? [] : n.status.journal ?? []) bad.push(["The journal, on node ", foreign(nodeName(n.id)), ": ", said(what), "."]);
  }
  const i = lanes.intake;
  if (i.catching_up) bad.push(["The store was set back and catches up: nothing fires until that is done.",
    i.paused ? " It cannot get on while the intake is paused." : ""]);
  if (i.paused) warn.push(["The intake was ", pausedText(i.paused), ". Nothing is taken in."]);
  for (const d of nodes.differences) warn.push(["Nodes differ in ", foreign(d.setting), "."]);
  return { bad, warn };
}

// ---- The table

/** How a lane is: how bad (0 is worst), and what to say. */
function laneState(l) {
  if (l.paused) return [1, state("warn", "■", pausedText(l.paused))];
  if (l.closed) return [2, state("unknown", "■", l.changes ? ["closed until ", time(l.changes, new Date(l.changes).toISOString().replace("T", " ").replace(/:00\.000Z$|Z$/, " UTC"))] : "closed forever")];
  if (l.parked) return [0, state("bad", "▲", parkedText(l))];
  if (outOf(l.name)) return [0, state("bad", "✖", outOf(l.name))];
  if (l.trouble) return [0, state("bad", "✖", "cannot publish: ", cause(l.trouble))];
  if (l.overdue.n > 0 || l.overdue.unknown) return [0, state("bad", "▲", "overdue")];
  if (!l.served) return [1, state("warn", "▲", "no route of this node")];
  return [3, state("good", "✔", "on time")];
}

/** Why a message of a lane does not come out, where that is up to its lane; "" if it is not, or is not known. */
export function laneHolds(name) {
  const l = seen.lanes?.lanes.find((o) => o.name === name);
  if (!l) return "";
  if (l.paused) return ["its lane was ", pausedText(l.paused)];
  if (l.closed) return ["its lane is closed", l.changes ? [" until ", time(l.changes)] : " forever"];
  if (outOf(name)) return outOf(name);
  if (l.trouble) return ["this node cannot publish there: ", cause(l.trouble)];
  return "";
}

/** Sorts lanes: those with trouble first, and of these what is overdue longest; then by name. */
function byTrouble(a, b) {
  const late = (l) => (l.paused || !l.oldest ? Infinity : new Date(l.oldest).getTime());
  const x = late(a.l), y = late(b.l);
  return a.rank - b.rank || (x < y ? -1 : x > y ? 1 : 0) || (a.l.name < b.l.name ? -1 : a.l.name > b.l.name ? 1 : 0);
}

const rank = (lanes) => lanes.map((l) => { const [rank, words] = laneState(l); return { l, rank, words }; }).sort(byTrouble);

const soon = { 60: "in 1 min", 600: "10 min", 3600: "1 h", 86400: "24 h" };
const few = 10; // so many lanes need no filter

/** A cell that has its heading in it, for screens on which there is no room for a column. */
const cell = (label, kind, ...children) => el("td", { class: kind, "data-label": label }, children);

/** A cell with a number. That of nothing is pale, and is left out where each cell is a line. */
const number = (label, c) => cell(label, "n" + (c.n === 0 && !c.unknown ? " zero" : ""), count(c));

export const pauseButton = (l) => (seen.info.control ? el("button", {
  "data-key": "lane " + l.name, "aria-label": (l.paused ? "Resume " : "Pause ") + isolated(l.name), onclick: () => steer(l.name, l.paused),
}, l.paused ? "Resume" : "Pause") : null);

export function showLanes(all) {
  const wanted = $("lane-filter").value.trim().toLowerCase(), unwell = $("lane-unwell").checked;
  const ranked = rank(all.lanes);
  const shown = ranked.filter(({ l, rank, words }) => (!unwell || rank < 3)
    && (!wanted || l.name.toLowerCase().includes(wanted) || words.textContent.toLowerCase().includes(wanted)));
  $("lanes-tools").hidden = all.lanes.length <= few && !wanted && !unwell;
  const troubled = ranked.filter((r) => r.rank < 2).length;
  $("lanes-count").textContent = (shown.length < all.lanes.length ? `${shown.length} of ${all.lanes.length} lanes` : `${all.lanes.length} lanes`)
    + (troubled ? `, ${troubled} not well` : "");
  redraw($("lanes").tBodies[0], shown.map(({ l, words }) => el("tr", {},
    el("th", { scope: "row" }, laneLink(l.name, "row")),
    el("td", { class: "state" }, words), el("td", { class: "act" }, pauseButton(l)),
    number("Waiting", l.waiting), number("Claimed", l.claimed), number("Overdue", l.overdue),
    cell("Oldest", "at" + (l.oldest ? "" : " zero"), l.oldest ? ago(l.oldest) : "–"), cell("Next", "at" + (l.next ? "" : " zero"), l.next ? next(l.next) : "–"),
    l.within.map((w, i) => number((i ? "in " : "") + (soon[w.seconds] ?? roughly(w.seconds)), w.count)))));
  $("lanes-none").hidden = shown.length > 0;
  $("lanes-none").textContent = all.lanes.length ? "No lane is like that." : "There are no lanes: this node has no route, and nothing waits.";
  const i = all.intake;
  redraw($("intake"), [i.paused ? state("warn", "■", "The intake was ", pausedText(i.paused), ". ")
    : i.catching_up ? state("bad", "▲", "The store catches up. ") : state("good", "✔", "The intake is on. "),
  seen.info.control ? el("button", { "data-key": "intake", onclick: () => steer(null, i.paused) }, i.paused ? "Resume the intake" : "Pause the intake") : ""]);
}

for (const id of ["lane-filter", "lane-unwell"]) $(id).addEventListener("input", () => { if (seen.lanes) showLanes(seen.lanes); });

// ---- One lane

/** Shows a lane by itself. */
export function showLane(name) {
  const l = seen.lanes?.lanes.find((o) => o.name === name);
  $("lane-title").replaceChildren("Lane ", foreign(name));
  if (!l) {
    redraw($("lane-about"), [el("p", {}, seen.lanes ? "There is no such lane: no route of this node has it, nothing waits there, and nobody has paused it."
      : "Nothing is known of it yet: the node has not answered so far.")]);
    return;
  }
  const facts = [["Waiting", count(l.waiting)], ["Claimed", count(l.claimed)],
    ["Overdue", l.oldest ? [count(l.overdue), ", the oldest since ", time(l.oldest), ", ", ago(l.oldest)] : count(l.overdue)],
    ["Next", l.next ? [time(l.next), ", ", next(l.next)] : "none"],
    ["Falls due", l.within.map((w, i) => [i ? ", " : "", count(w.count), " ", i ? "in " : "", soon[w.seconds] ?? roughly(w.seconds)])],
    ...(l.window ? [["Window", [foreign(l.window), l.changes ? [l.closed ? "; opens " : "; closes ", time(l.changes)] : ""]]] : []),
    ...(l.trouble ? [["Last error", [said(l.trouble.error), ", ", ago(l.trouble.at), `, after ${plural({ n: l.trouble.tries }, "try", "tries")}`]]] : []),
    ...publishers(l.name).failing.map((n) => ["On " + nodeName(n.id), cause(n.status.troubles[l.name])]),
    ...(l.parked ?? []).map((p) => [sentence(parts(l.name)) + " " + p.part, [plural(p.waiting, "message"), " parked", p.oldest ? [", the first since ", time(p.oldest)] : ""]])];
  redraw($("lane-about"), [el("p", { class: "large" }, laneState(l)[1]), el("p", { class: "buttons start" }, pauseButton(l)),
    el("dl", {}, facts.map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]))]);
}

// ---- Pause and resume

let again = () => {}, failed = () => {};
/** Says what to do when something was paused or resumed, and when nobody knows. */
export const onSteer = (look, failure) => { again = look; failed = failure; };

async function steer(lane, paused) {
  const what = lane === null ? "the intake" : ["lane ", foreign(lane)];
  const path = "v1/pauses/" + (lane === null ? "intake" : "lanes/" + encodeURIComponent(lane));
  await confirm({
    title: [paused ? "Resume " : "Pause ", what, "?"],
    text: paused
      ? (lane === null ? "What has come meanwhile is taken in." : "What is overdue by now comes out at once, as fast as it goes.")
      : (lane === null ? "Nothing is taken in from any topic, and the lag grows. What is stored comes out."
        : "Nothing comes out of it, except for what nodes have claimed already: usually for a quarter of a second."),
    why: !paused && "What for? Others will see it.",
    yes: paused ? "Resume" : "Pause",
    act: ({ reason }) => (paused ? remove(path + "?by=" + encodeURIComponent(me())) : send("PUT", path, { by: me(), reason })),
    failed,
  });
  await again();
}
