// Messages: what becomes of one, what can be done with it, and lists of them.
import { ago, clocks, content, el, fill, foreign, laneLink, messageLink, plural, said, sentence, state, time } from "./text.js";
import { me, nodeName, read, redraw, seen, send } from "./node.js";
import { confirm } from "./confirm.js";
import { laneHolds, parts } from "./lanes.js";

const $ = (id) => document.getElementById(id);
const kinds = { waiting: ["good", "✔"], claimed: ["good", "➤"], overdue: ["bad", "▲"], parked: ["bad", "▲"], "put-off": ["warn", "▲"], stuck: ["bad", "✖"] };
const stateOf = (m) => state(...(kinds[m.state] ?? ["warn", "▲"]), m.state);

// ---- Change a message

/** What can be done with a message: how it is asked for, and what it means. */
const actions = {
  reschedule: {
    label: () => "Reschedule", yes: "Reschedule it",
    title: (m) => ["Reschedule ", foreign(m.id), "?"],
    text: (m) => ["It is due at ", time(m.deadline), " on lane ", foreign(m.lane), ", and keeps its key, value and headers.",
      m.series ? [" This occurrence alone moves", m.series.next ? ["; the next one comes at ", time(m.series.next), " as before."] : "."] : ""],
  },
  fire: {
    label: () => "Fire now", yes: "Fire it now",
    title: (m) => ["Fire ", foreign(m.id), " now?"],
    text: (m) => ["It comes out on lane ", foreign(m.lane), " now, and not at ", time(m.deadline), ". It cannot be called back.",
      m.series?.next ? [" The next occurrence comes at ", time(m.series.next), " as before."] : ""],
  },
  cancel: {
    label: (m) => (m.series ? "Cancel the series" : "Cancel"), yes: "Cancel it", ends: true,
    title: (m) => [m.series ? "Cancel the series " : "Cancel ", foreign(m.id), "?"],
    text: (m) => (m.series
      ? [`The series ends: occurrence ${m.series.sequence}, which is due at `, time(m.deadline), " on lane ", foreign(m.lane), ", will not come out, nor does any after it."]
      : ["It will not come out. It is due at ", time(m.deadline), " on lane ", foreign(m.lane), ". This cannot be undone."]),
  },
};

/** Why an instruction is most likely too late; "" if it is not. */
function lateFor(m, action) {
  if (m.bound) return "Somebody was told that it comes out: it is too late" + (action === "cancel" && m.series ? " for this occurrence." : ".");
  if (m.claim || m.attempts > 0) return "A node has claimed it, or had: it is most likely too late" + (action === "cancel" && m.series ? " for this occurrence." : ".");
  return "";
}

const gone = "It does not wait any more.";
let again = null; // the id of a message to look at once more

async function change(m, action) {
  const a = actions[action];
  const done = await confirm({
    title: a.title(m), text: a.text(m), warn: lateFor(m, action), when: action === "reschedule", yes: a.yes,
    why: "What for? It goes into the log.", failed: showFailure,
    act: ({ reason, when }) => {
      const body = { lane: m.lane, incarnation: m.incarnation, by: me(), reason };
      if (action === "reschedule") body[/^\d{4}-/.test(when) ? "deadline" : "delay"] = when;
      return send("POST", `v1/messages/${encodeURIComponent(m.id)}/${action}`, body);
    },
  });
  if (!done) return;
  showOutcome(done);
  $("outcome").focus();
  again = m.id; // what fires is gone a moment later
  await find(m.id, false, gone);
}

function showOutcome(done) {
  const words = {
    cancelled: ["good", "✔ Cancelled."], rescheduled: ["good", "✔ Rescheduled."], fired: ["good", "✔ Fired."],
    stopped: ["good", "✔ Stopped."], too_late: ["warn", "▲ Too late."], not_found: ["warn", "▲ Not done."],
  };
  const [kind, word] = words[done.outcome] ?? ["warn", "▲ " + done.outcome];
  $("outcome").hidden = false;
  $("outcome").replaceChildren(el("strong", { class: kind }, word), " ", el("code", {}, foreign(done.id)), ": ", said(done.says));
}

/** Says what has gone wrong with something whose question is not open any more. */
export function showFailure(e) {
  $("outcome").hidden = false;
  $("outcome").replaceChildren(el("strong", { class: "bad" }, "✖ ", said(sentence(e.message))));
}

// ---- A message's life

function life(m) {
  const now = Date.now() + clocks.ahead, steps = [];
  const step = (at, title, ...more) => steps.push({ at: at ? new Date(at).getTime() : null, title, more });
  if (m.origin) step(null, "Submitted", `by offset ${m.origin.offset} of `, foreign(m.origin.topic), `/${m.origin.partition}`);
  step(null, "Taken in", "it is stored");
  const late = m.state === "overdue" || !m.claim && new Date(m.due) < now;
  step(m.deadline, "Deadline", m.state === "overdue" ? ["it should have come out", laneHolds(m.lane) ? [": ", laneHolds(m.lane)] : ""] : late ? laneHolds(m.lane) : "");
  if (m.part) step(null, "Parked", parts(m.lane), " ", foreign(m.part), " of ", laneLink(m.lane, "parked"), " does not answer");
  if (m.due !== m.deadline) step(m.due, "Put off to", m.trouble ? said(m.trouble.cause || m.trouble.error) : "it could not be published");
  if (m.claim) {
    step(m.claim.since, "Claimed", "by ", foreign(nodeName(m.claim.node)));
    step(m.claim.expires, "Claim expires", "if it is not published by then, another node takes over");
  }
  steps.sort((a, b) => (a.at ?? 0) - (b.at ?? 0));
  step(null, "Fired", "then it is on its topic, and not here any more");
  return el("ol", { class: "life" }, steps.map((s, i) => el("li", {
    class: s.at > now || i === steps.length - 1 ? "ahead" : "",
  }, el("strong", {}, s.title), " ", s.at ? [time(s.at), ", ", ago(s.at)] : "", el("div", { class: "small" }, s.more))));
}

const bytes = (b) => b === undefined ? "null" :
  b.text !== undefined && !b.text.startsWith("base64:") ? b.text : "base64:" + (b.base64 ?? base64(b.text));
const base64 = (text) => btoa(String.fromCodePoint(...new TextEncoder().encode(text)));

/** A button that copies what is not shown as it is, where the browser lets a page do that. */
function copier(label, text) {
  if (!navigator.clipboard) return null;
  const button = el("button", { type: "button", "data-focus": label, onclick: async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Not allowed to copy"; }
  } }, label);
  return button;
}

function showMessage(m) {
  const facts = [["Lane", laneLink(m.lane, "message")], ["Attempts", m.attempts], ["Size", m.bytes.toLocaleString("en") + " bytes"], ["Key", foreign(bytes(m.key))],
    ...(m.series ? [["Series", foreign(m.series.rule)], ["Occurrence", [`number ${m.series.sequence}`, m.series.stopped ? ", the last: the series was cancelled"
      : m.series.next ? ["; the next comes at ", time(m.series.next)] : ", the last"]]] : []),
    ...(m.not_after ? [["Not after", time(m.not_after)]] : []),
    ...(m.former ? [["Replaced", "what it has replaced may have come out, or may yet"]] : []),
    ...(m.headers ?? []).map((h) => [["Header ", foreign(h.name)], foreign(bytes(h.value))])];
  if (m.value !== undefined) facts.push(["Value", foreign(bytes(m.value), { lines: true })]);
  return el("article", {}, el("h3", {}, foreign(m.id), " ", stateOf(m)), life(m),
    el("dl", {}, facts.map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])),
    el("p", { class: "buttons start" },
      seen.info.payload && m.value === undefined ? el("button", { type: "button", onclick: () => find(m.id, true) }, "Show the value") : null,
      copier("Copy the id", m.id),
      seen.info.control ? Object.entries(actions).map(([action, a]) => el("button", {
        type: "button", "data-key": action + " " + m.lane, "aria-haspopup": "dialog", class: a.ends ? "ends" : null, onclick: () => change(m, action),
      }, a.label(m) + "…")) : null),
    seen.info.control ? null : el("p", { class: "small" }, "Read only: to change a message takes the right control, of the node and of your token."));
}

let searches = 0; // whatever answers first, the last one counts

/** Shows the messages of an id. */
export async function find(id, payload, none = "No such message waits or is claimed: it has fired, or was never taken in.") {
  const mine = ++searches;
  if (/^\.\.?$/.test(id)) { // a browser takes it for a folder
    $("found").replaceChildren(el("p", {}, "A page cannot ask for that id: ", el("code", {}, "chronos get"), " can."));
    return;
  }
  try {
    const all = await read("v1/messages/" + encodeURIComponent(id) + (payload ? "?payload=true" : ""));
    if (mine !== searches || $("confirm").open) return; // what somebody decides on stays as they have seen it
    redraw($("found"), all.messages.length ? all.messages.map(showMessage)
      : [el("h3", {}, foreign(id)), el("p", {}, none)]);
  } catch (e) { if (mine === searches) $("found").replaceChildren(el("p", { class: "bad" }, "✖ ", said(sentence(e.message)))); }
}

/** Looks once more at a message that was changed a moment ago. */
export async function findAgain() {
  if (again === null) return;
  const id = again;
  again = null;
  await find(id, false, gone);
}

/** Leaves what was done to a message before. */
export function leave() {
  searches++;
  again = null;
  $("found").replaceChildren();
}

// ---- Lists

const page = 50, pages = 20; // how many are shown at once, and how often the node is asked for them
let lists = 0, shownList = null;

const empty = {
  "": "Nothing waits.", waiting: "Nothing waits.", overdue: "Nothing is overdue.", claimed: "No node holds a message at this moment.",
  "put-off": "Nothing was put off: whatever was tried came out.", parked: "Nothing is parked: all partitions and hosts answer.",
  stuck: "Nothing is stuck: no claim has expired.",
};

/** Shows a list of messages: those that the query of the address asks for, as state, lane, key and header. */
export async function list(query, { fresh = false } = {}) {
  const asked = query.toString();
  if (asked === shownList && !fresh) return;
  shownList = asked;
  for (const name of ["state", "lane", "key", "header"]) fill($("list-" + name), query.get(name) ?? "");
  $("list").tBodies[0].replaceChildren();
  await more(asked, "");
}

/** Adds a page to the list. The node looks for a tenth of a second at a time, so that a page may take several looks. */
async function more(asked, cursor) {
  const mine = ++lists, rows = $("list").tBodies[0], query = new URLSearchParams(asked);
  $("list-more").hidden = true;
  $("list-says").className = "small";
  let looked = 0, found = 0;
  try {
    for (let n = 0; n < pages && found < page; n++) {
      $("list-says").textContent = "Looking…" + (looked ? ` ${looked.toLocaleString("en")} messages were looked at.` : "");
      query.set("limit", String(page - found));
      if (cursor) query.set("cursor", cursor);
      const got = await read("v1/messages?" + query);
      if (mine !== lists) return;
      rows.append(...got.messages.map(row));
      found += got.messages.length; looked += got.scanned; cursor = got.next ?? "";
      if (!cursor) break;
    }
  } catch (e) {
    if (mine !== lists) return;
    $("list-says").className = "bad";
    $("list-says").replaceChildren("✖ ", said(sentence(e.message)));
    shownList = null; // the next look is a new one
    return;
  }
  const shown = rows.rows.length, narrowed = query.get("key") || query.get("header") || query.get("lane");
  $("list-says").textContent = shown === 0 && !cursor ? (narrowed ? "No message is like that." : empty[query.get("state") ?? ""] ?? "No message is like that.")
    : `${plural({ n: shown }, "message")} ${shown === 1 ? "is" : "are"} shown` + (cursor ? `, and there may be more: ${looked.toLocaleString("en")} were looked at just now.` : "; that is all.");
  $("list-more").hidden = !cursor;
  $("list-more").onclick = () => more(asked, cursor);
}

const row = (m) => el("tr", {}, el("th", { scope: "row" }, messageLink(m.id, "list")), el("td", { class: "state" }, stateOf(m)),
  el("td", { class: "name", "data-label": "Lane" }, laneLink(m.lane, "list " + m.id)),
  el("td", { class: "at", "data-label": "Deadline" }, time(m.deadline), el("div", { class: "small" }, ago(m.deadline))),
  el("td", { class: "n" + (m.attempts ? "" : " zero"), "data-label": "Attempts" }, String(m.attempts)));

$("list-form").addEventListener("submit", (e) => {
  e.preventDefault();
  const query = new URLSearchParams();
  for (const name of ["state", "lane", "key", "header"]) if (content($("list-" + name))) query.set(name, content($("list-" + name)));
  const to = "#/messages" + (query.size ? "?" + query : "?");
  if (location.hash === to) list(query, { fresh: true }); else location.hash = to;
});
