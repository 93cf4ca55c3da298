// The page of a node. It asks /v1/ and /metrics every other second and draws what they say. Everything that comes from
// outside is put in as text, never as HTML.
import { showQueues } from "./queues.js";

const every = 2000, kept = 150; // 150 looks are five minutes
const $ = (id) => document.getElementById(id);
// ahead is how much the clock of the node, and that of the store, is ahead of this machine's.
let ahead = 0, storeAhead = 0;
let again = null; // the id of a message to look at once more
let info = { control: false }, token = sessionStorage.getItem("token") ?? "", asking = null;

/** Makes an element. */
function el(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) {
    if (k === "class") e.className = v; else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

async function call(path, options = {}) {
  options.headers = { ...options.headers, ...(token ? { Authorization: "Bearer " + token } : {}) };
  let response;
  try { response = await fetch(path, { ...options, signal: AbortSignal.timeout(8000) }); }
  catch {
    throw new TypeError(options.method ? "Nobody knows whether that was done: this node has not answered. Look again before you repeat it."
      : "This node does not answer: it has ended, or there is no way to it. The page asks again.");
  }
  if (response.status === 401) {
    await login(Boolean(token));
    if (!token) throw new Error("A token is needed.");
    return call(path, options);
  }
  if (!response.ok) {
    const text = await response.text();
    let detail = text;
    try { detail = JSON.parse(text).detail ?? text; } catch { /* it is a sentence already */ }
    throw Object.assign(new Error(detail), { status: response.status });
  }
  return response;
}
const read = async (path) => (await call(path)).json();

/** Asks for the token, once at a time. */
function login(wrong) {
  asking ??= new Promise((resolve) => {
    const dialog = $("login");
    $("login-wrong").hidden = !wrong;
    dialog.addEventListener("close", () => {
      token = $("token").value; sessionStorage.setItem("token", token); $("token").value = ""; asking = null; resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

const count = (c) => c.unknown ? "?" : (c.estimated ? "~" : "") + c.n.toLocaleString("en");
function roughly(seconds) {
  const s = Math.abs(seconds);
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " days";
}

/** Says how far an instant is away, in whole seconds: what is shown is a look or two old. */
function ago(instant, now = Date.now() + ahead) {
  const s = Math.round((now - new Date(instant)) / 1000);
  if (s === 0) return "just now";
  return s > 0 ? lasting(s) + " ago" : "in " + lasting(s);
}

/** Says how long something takes or has taken, in whole seconds. */
function lasting(seconds) {
  const s = Math.round(Math.abs(seconds));
  return s < 10 ? s + " s" : roughly(s);
}

/** Says when the next message falls due. One whose time has come since the lanes were counted is coming out. */
const next = (instant) => new Date(instant) - ahead <= Date.now() ? "now" : ago(instant);
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const plural = (c, one, many = one + "s") => count(c) + " " + (c.n === 1 && !c.unknown ? one : many);
const cause = (trouble) => trouble.cause || trouble.error;
const clock = (instant) => (Date.now() - new Date(instant) > 12 * 3600e3 ? when(instant) : new Date(instant).toISOString().slice(11, 19) + " UTC");
const when = (instant) => new Date(instant).toISOString().replace("T", " ").replace("Z", " UTC");
const state = (kind, sign, text) => el("span", { class: kind }, sign + " " + text);
const pausedText = (p) => "paused " + ago(p.since) + (p.by ? " by " + p.by : "") + (p.reason ? ": " + p.reason : "");

const parts = (lane, n = 1) => (lane.startsWith("http:") ? "host" : "partition") + (n === 1 ? "" : "s");
const parkedText = (l) => {
  const names = l.parked.slice(0, 5).map((p) => p.part).join(", ") + (l.parked.length > 5 ? ` and ${l.parked.length - 5} more` : "");
  return `parked: ${parts(l.name, l.parked.length)} ${names} ${l.parked.length === 1 ? "does" : "do"} not answer`;
};

// ---- Is it well?

const out = (what) => (info.outages ?? []).some((o) => o.what === what);

/** Says what does not answer, since when and why, and what that means. */
const outages = () => (info.outages ?? []).map((o) => {
  const what = o.lane ? "Topic " + o.lane : o.what === "store" ? "The store" : o.what;
  return `${what} has not ${o.lane ? "taken a message" : "answered"} since ${clock(o.since)}, for ${lasting((Date.now() + ahead - new Date(o.since)) / 1000)}: `
    + `${o.cause}. ${o.effect}`;
});

function judge(lanes, nodes) {
  const bad = outages(), warn = [];
  for (const l of lanes.lanes) {
    const late = l.oldest ? (new Date(lanes.at) - new Date(l.oldest)) / 1000 : 0;
    if (l.paused) warn.push(`Lane ${l.name} was ${pausedText(l.paused)}.`);
    else if (late > 5) bad.push(`Lane ${l.name} has ${plural(l.overdue, "overdue message")}, the oldest for ${roughly(late)}.`);
    if (l.parked) bad.push(`Of lane ${l.name}, messages are ${parkedText(l)}. The others come out.`);
    if (l.trouble && !out("Kafka") && !out("topic " + l.name)) bad.push(`This node cannot publish on ${l.name}: ${cause(l.trouble)}.`);
    if (!l.served) warn.push(`Messages wait on lane ${l.name}, which no route of this node has.`);
  }
  const live = nodes.nodes.filter((n) => !n.silent);
  if (live.length === 0) bad.push("No node says that it lives.");
  for (const n of nodes.nodes) {
    if (n.silent) warn.push(`Node ${n.id.slice(0, 8)} on ${n.host} was last seen ${ago(n.seen, Date.now() + storeAhead)}.`);
    else if (!n.status.ready) bad.push(`Node ${n.id.slice(0, 8)} on ${n.host} is not ready; its /readyz?verbose says why.`);
    for (const what of n.silent ? [] : n.status.journal ?? []) bad.push(`The journal, on node ${n.id.slice(0, 8)}: ${what}.`);
  }
  const i = lanes.intake;
  if (i.catching_up) bad.push("The store was set back and catches up: nothing fires until that is done."
    + (i.paused ? " It cannot get on while the intake is paused." : ""));
  if (i.paused) warn.push(`The intake was ${pausedText(i.paused)}. Nothing is taken in.`);
  for (const d of nodes.differences) warn.push(`Nodes differ in ${d.setting}.`);
  return { bad, warn };
}

function verdict(kind, text, reasons) {
  const v = $("verdict");
  if (v.textContent !== text) v.textContent = text;
  v.className = "verdict " + kind;
  document.title = text + " · Chronos";
  $("reasons").hidden = reasons.length === 0;
  $("reasons").firstElementChild.replaceChildren(...reasons.map((r) => el("li", {}, r)));
}

// ---- Charts

const looks = []; // {at, fired, buckets}

/** Reads what the charts need from the text of /metrics. */
function metrics(text) {
  let fired = 0;
  const buckets = new Map();
  for (const line of text.split("\n")) {
    if (line.startsWith("chronos_fired_total")) fired += Number(line.slice(line.lastIndexOf(" ")));
    const m = /^chronos_lateness_seconds_bucket\{.*le="([^"]+)".*\} ([^ ]+)/.exec(line);
    if (m) buckets.set(Number(m[1].replace("+Inf", "Infinity")), (buckets.get(Number(m[1].replace("+Inf", "Infinity"))) ?? 0) + Number(m[2]));
  }
  return { at: Date.now(), fired, buckets };
}

/** Returns the bound that 99 in 100 of what fired between two looks kept to; null where nothing fired. */
function quantile(before, now, q = 0.99) {
  const edges = [...now.buckets.keys()].sort((a, b) => a - b);
  const delta = (e) => now.buckets.get(e) - (before.buckets.get(e) ?? 0);
  const all = edges.length ? delta(edges[edges.length - 1]) : 0;
  if (all <= 0) return null;
  const at = edges.findIndex((e) => delta(e) >= q * all);
  return Number.isFinite(edges[at]) ? edges[at] : edges[edges.length - 2];
}

function draw(svg, values, format) {
  const top = Math.max(...values.filter((v) => v !== null), 0) * 1.1 || 1, step = 600 / (kept - 1);
  const offset = (kept - values.length) * step;
  let path = "", pen = "M";
  values.forEach((v, i) => {
    if (v === null) { pen = "M"; return; }
    path += `${pen}${(offset + i * step).toFixed(1)} ${(118 - Math.max(v, 0) / top * 114).toFixed(1)}`;
    if (pen === "M" && (values[i + 1] ?? null) === null) path += "h2"; // a dot
    pen = "L";
  });
  const ns = "http://www.w3.org/2000/svg";
  svg.replaceChildren(...[4, 61, 118].map((y) => {
    const line = document.createElementNS(ns, "line");
    for (const [k, v] of Object.entries({ x1: 0, x2: 600, y1: y, y2: y, class: "grid" })) line.setAttribute(k, v);
    return line;
  }));
  const curve = document.createElementNS(ns, "path");
  curve.setAttribute("d", path); curve.setAttribute("class", "curve");
  svg.append(curve);
  let axis = svg.nextElementSibling;
  if (!axis) { axis = el("div", { class: "axis" }); svg.after(axis); }
  axis.replaceChildren(el("span", {}, "5 min ago"), el("span", {}, "top: " + format(top)), el("span", {}, "now"));
  svg.setAttribute("aria-label", svg.id === "rate" ? "Fired in a second, up to " + format(top) : "Lateness, up to " + format(top));
}

function charts(text) {
  looks.push(metrics(text));
  if (looks.length > kept + 1) looks.shift();
  const rates = [], lates = [];
  for (let i = 1; i < looks.length; i++) {
    const [a, b] = [looks[i - 1], looks[i]];
    rates.push(b.fired >= a.fired ? (b.fired - a.fired) * 1000 / (b.at - a.at) : null);
    lates.push(quantile(a, b));
  }
  if (!rates.length) return;
  const perSecond = (v) => v >= 100 ? Math.round(v).toLocaleString("en") : v.toFixed(1);
  $("rate-now").textContent = rates.at(-1) === null ? "–" : perSecond(rates.at(-1));
  const last = lates.findLast((v) => v !== null) ?? null;
  $("late-now").textContent = last === null ? "nothing fired yet" : "under " + roughly(last);
  draw($("rate"), rates, perSecond);
  draw($("late"), lates, roughly);
}

// ---- Tables

function laneState(l) {
  if (l.paused) return state("warn", "■", pausedText(l.paused));
  if (l.closed) return state("unknown", "■", l.changes ? "closed until " + when(l.changes).replace(/:00\.000/, "") : "closed forever");
  if (l.parked) return state("bad", "▲", parkedText(l));
  if (l.trouble) return state("bad", "✖", "cannot publish: " + cause(l.trouble));
  if (l.overdue.n > 0 || l.overdue.unknown) return state("bad", "▲", "overdue");
  if (!l.served) return state("warn", "▲", "no route of this node");
  return state("good", "✔", "on time");
}

function showLanes(all) {
  const most = Math.max(1, ...all.lanes.flatMap((l) => l.within.map((w) => w.count.n)));
  const names = { 60: "1 min", 600: "10 min", 3600: "1 h", 86400: "24 h" };
  keepFocus($("lanes").tBodies[0], all.lanes.map((l) => el("tr", {},
    el("th", { scope: "row" }, l.name),
    el("td", { class: "state" }, laneState(l)),
    el("td", { class: "n" }, count(l.waiting)), el("td", { class: "n" }, count(l.claimed)),
    el("td", { class: "n" }, count(l.overdue)),
    el("td", { class: "at" }, l.oldest ? ago(l.oldest) : "–"), el("td", { class: "at" }, l.next ? next(l.next) : "–"),
    el("td", {}, el("div", { class: "bars" }, ...l.within.map((w) => {
      const bar = el("i");
      bar.style.width = 100 * Math.log1p(w.count.n) / Math.log1p(most) + "%";
      return el("div", {}, names[w.seconds] ?? roughly(w.seconds), el("b", {}, count(w.count)), bar);
    }))),
    el("td", {}, info.control ? el("button", {
      "data-key": "lane " + l.name, "aria-label": (l.paused ? "Resume " : "Pause ") + l.name, onclick: () => steer(l.name, l.paused),
    }, l.paused ? "Resume" : "Pause") : null))));
  const i = all.intake;
  const text = i.paused ? state("warn", "■", "The intake was " + pausedText(i.paused) + ". ")
    : i.catching_up ? state("bad", "▲", "The store catches up. ") : state("good", "✔", "The intake is on. ");
  keepFocus($("intake"), [text, info.control ? el("button", {
    "data-key": "intake", onclick: () => steer(null, i.paused),
  }, i.paused ? "Resume the intake" : "Pause the intake") : ""]);
}

/** Replaces children, and gives the focus back to the one that had it. */
function keepFocus(parent, children) {
  const key = document.activeElement?.dataset?.key;
  parent.replaceChildren(...children);
  if (key && document.activeElement === document.body) parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

function showNodes(all) {
  $("nodes").tBodies[0].replaceChildren(...all.nodes.map((n) => el("tr", {},
    el("th", { scope: "row" }, el("code", {}, n.id.slice(0, 8)), n.id === info.node ? " (this one)" : ""),
    el("td", {}, n.silent ? state("bad", "✖", "silent") : n.status.ready ? state("good", "✔", "ready") : state("warn", "▲", "not ready"),
      ...Object.entries(n.status.troubles ?? {}).map(([lane, t]) => el("div", { class: "small" }, `${lane}: ${cause(t)}`))),
    el("td", {}, n.host), el("td", {}, n.version),
    el("td", {}, lasting((new Date(n.seen) - new Date(n.started)) / 1000)), el("td", {}, ago(n.seen, Date.now() + storeAhead)))));
  $("differences").replaceChildren(...all.differences.map((d) => el("p", {}, state("warn", "▲", `They differ in ${d.setting}: `),
    Object.entries(d.values).map(([v, ids]) => `${v || "(empty)"} on ${ids.map((i) => i.slice(0, 8)).join(", ")}`).join("; "))));
}

function showPositions(all) {
  $("positions").tBodies[0].replaceChildren(...all.positions.map((p) => el("tr", {},
    el("th", { scope: "row" }, p.topic), el("td", { class: "n" }, String(p.partition)),
    el("td", { class: "n" }, p.offset.toLocaleString("en")), el("td", {}, p.mark === undefined ? "–" : p.mark.toLocaleString("en")))));
}

// ---- Pause and resume

const me = () => info.caller || "page";
const send = (method, path, body) => call(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

async function steer(lane, paused) {
  const what = lane === null ? "the intake" : "lane " + lane;
  const path = "v1/pauses/" + (lane === null ? "intake" : "lanes/" + encodeURIComponent(lane));
  await confirm({
    title: (paused ? "Resume " : "Pause ") + what + "?",
    text: paused
      ? (lane === null ? "What has come meanwhile is taken in." : "What is overdue by now comes out at once, as fast as it goes.")
      : (lane === null ? "Nothing is taken in from any topic, and the lag grows. What is stored comes out."
        : "Nothing comes out of it, except for what nodes have claimed already: usually for a quarter of a second."),
    why: !paused && "What for? Others will see it.",
    yes: paused ? "Resume" : "Pause",
    act: ({ reason }) => (paused ? call(path + "?by=" + encodeURIComponent(me()), { method: "DELETE" })
      : send("PUT", path, { by: me(), reason })),
  });
  await look();
}

let question = null; // the one that was asked last

/**
 * Asks whether something is to be done, and does it. What is refused is said in the dialog, which stays open. Returns
 * what act returns, or null if it is left as it is. What is being done is not left any more: if the dialog is closed
 * meanwhile, what has become of it is told all the same.
 */
function confirm({ title, text, warn, when, why, yes, act }) {
  const dialog = $("confirm"), form = $("confirm-form"), wrong = $("confirm-wrong");
  if (dialog.open) return Promise.resolve(null); // one question at a time
  const mine = question = {};
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-warn").textContent = warn ? "▲ " + warn : ""; $("confirm-warn").hidden = !warn;
  $("confirm-when").hidden = !when; $("when").required = Boolean(when); $("when").value = "";
  $("confirm-why").hidden = !why; $("why-label").textContent = why || ""; $("reason").value = "";
  $("confirm-yes").textContent = yes;
  $("confirm-yes").disabled = $("confirm-no").disabled = false; // the one before may be under way
  wrong.hidden = true;
  dialog.showModal();
  (when ? $("when") : $("confirm-no")).focus();
  return new Promise((resolve) => {
    const ended = new AbortController(), options = { signal: ended.signal };
    let result = null, doing = null;
    $("confirm-no").addEventListener("click", () => dialog.close(), options);
    // The event comes a moment after the dialog has closed: it may be of the question before, when the next one is open.
    dialog.addEventListener("close", () => {
      if (mine === question && dialog.open) return;
      ended.abort();
      if (doing) doing.then(resolve, (e) => { showFailure(e); resolve(null); }); else resolve(result);
    }, options);
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      if (doing) return;
      doing = act({ reason: $("reason").value.trim(), when: $("when").value.trim() });
      $("confirm-yes").disabled = $("confirm-no").disabled = true;
      try {
        result = await doing;
        if (mine === question) dialog.close();
      } catch (e) {
        if (mine === question) { wrong.textContent = "✖ " + sentence(e.message); wrong.hidden = false; }
      } finally {
        doing = null;
        if (mine === question) $("confirm-yes").disabled = $("confirm-no").disabled = false;
      }
    }, options);
  });
}

// ---- Change a message

/** What can be done with a message: how it is asked for, and what it means. */
const actions = {
  reschedule: {
    label: () => "Reschedule", yes: "Reschedule it",
    title: (m) => `Reschedule ${m.id}?`,
    text: (m) => `It is due at ${when(m.deadline)} on lane ${m.lane}, and keeps its key, value and headers.`
      + (m.series ? " This occurrence alone moves" + (m.series.next ? `; the next one comes at ${when(m.series.next)} as before.` : ".") : ""),
  },
  fire: {
    label: () => "Fire now", yes: "Fire it now",
    title: (m) => `Fire ${m.id} now?`,
    text: (m) => `It comes out on lane ${m.lane} now, and not at ${when(m.deadline)}. It cannot be called back.`
      + (m.series?.next ? ` The next occurrence comes at ${when(m.series.next)} as before.` : ""),
  },
  cancel: {
    label: (m) => (m.series ? "Cancel the series" : "Cancel"), yes: "Cancel it",
    title: (m) => (m.series ? `Cancel the series ${m.id}?` : `Cancel ${m.id}?`),
    text: (m) => (m.series
      ? `The series ends: occurrence ${m.series.sequence}, which is due at ${when(m.deadline)} on lane ${m.lane}, will not come out, nor does any after it.`
      : `It will not come out. It is due at ${when(m.deadline)} on lane ${m.lane}. This cannot be undone.`),
  },
};

/** Why an instruction is most likely too late; "" if it is not. */
function lateFor(m, action) {
  if (m.bound) return "Somebody was told that it comes out: it is too late" + (action === "cancel" && m.series ? " for this occurrence." : ".");
  if (m.claim || m.attempts > 0) return "A node has claimed it, or had: it is most likely too late" + (action === "cancel" && m.series ? " for this occurrence." : ".");
  return "";
}

const gone = "It does not wait any more.";

async function change(m, action) {
  const a = actions[action];
  const done = await confirm({
    title: a.title(m), text: a.text(m), warn: lateFor(m, action), when: action === "reschedule", yes: a.yes,
    why: "What for? It goes into the log.",
    act: async ({ reason, when }) => {
      const body = { lane: m.lane, incarnation: m.incarnation, by: me(), reason };
      if (action === "reschedule") body[/^\d{4}-/.test(when) ? "deadline" : "delay"] = when;
      return (await send("POST", `v1/messages/${encodeURIComponent(m.id)}/${action}`, body)).json();
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
  $("outcome").replaceChildren(el("strong", { class: kind }, word), " ", el("code", {}, done.id), ": " + done.says);
}

/** Says what has gone wrong with something whose question is not open any more. */
function showFailure(e) {
  $("outcome").hidden = false;
  $("outcome").replaceChildren(el("strong", { class: "bad" }, "✖ " + sentence(e.message)));
}

// ---- A message's life

function life(m) {
  const now = Date.now() + ahead, steps = [];
  const step = (at, title, more) => steps.push({ at: at ? new Date(at).getTime() : null, title, more });
  if (m.origin) step(null, "Submitted", `by offset ${m.origin.offset} of ${m.origin.topic}/${m.origin.partition}`);
  step(null, "Taken in", "it is stored");
  step(m.deadline, "Deadline", m.state === "overdue" ? "it should have come out" : "");
  if (m.part) step(null, "Parked", `${parts(m.lane)} ${m.part} of ${m.lane} does not answer`);
  if (m.due !== m.deadline) step(m.due, "Put off to", m.trouble ? cause(m.trouble) : "it could not be published");
  if (m.claim) {
    step(m.claim.since, "Claimed", `by node ${m.claim.node.slice(0, 8)}`);
    step(m.claim.expires, "Claim expires", "if it is not published by then, another node takes over");
  }
  steps.sort((a, b) => (a.at ?? 0) - (b.at ?? 0));
  step(null, "Fired", "then it is on its topic, and not here any more");
  return el("ol", { class: "life" }, ...steps.map((s, i) => el("li", {
    class: s.at > now || i === steps.length - 1 ? "ahead" : "",
  }, el("strong", {}, s.title), " ", s.at ? `${when(s.at)}, ${ago(s.at)}` : "", el("div", { class: "small" }, s.more ?? ""))));
}

const bytes = (b) => b === undefined ? "null" :
  b.text !== undefined && !b.text.startsWith("base64:") ? b.text : "base64:" + (b.base64 ?? base64(b.text));
const base64 = (text) => btoa(String.fromCodePoint(...new TextEncoder().encode(text)));

function showMessage(m) {
  const kinds = { waiting: ["good", "✔"], claimed: ["good", "➤"], overdue: ["bad", "▲"], parked: ["bad", "▲"], "put-off": ["warn", "▲"], stuck: ["bad", "✖"] };
  const facts = [["Lane", m.lane], ["Attempts", m.attempts], ["Size", m.bytes + " bytes"], ["Key", bytes(m.key)],
    ...(m.series ? [["Series", m.series.rule], ["Occurrence", `number ${m.series.sequence}` + (m.series.stopped ? ", the last: the series was cancelled"
      : m.series.next ? `; the next comes at ${when(m.series.next)}` : ", the last")]] : []),
    ...(m.not_after ? [["Not after", when(m.not_after)]] : []),
    ...(m.former ? [["Replaced", "what it has replaced may have come out, or may yet"]] : []),
    ...(m.headers ?? []).map((h) => ["Header " + h.name, bytes(h.value)])];
  if (m.value !== undefined) facts.push(["Value", bytes(m.value)]);
  return el("article", {}, el("h3", {}, m.id, " ", state(...kinds[m.state], m.state)), life(m),
    el("dl", {}, ...facts.flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, String(v))])),
    el("p", { class: "buttons start" },
      info.payload && m.value === undefined ? el("button", { type: "button", onclick: () => find(m.id, true) }, "Show the value") : null,
      ...(info.control ? Object.entries(actions).map(([action, a]) => el("button", {
        type: "button", "data-key": action + " " + m.lane, "aria-haspopup": "dialog", onclick: () => change(m, action),
      }, a.label(m) + "…")) : [])),
    info.control ? null : el("p", { class: "small" }, "Read only: to change a message takes the right control, of the node and of your token."));
}

let searches = 0; // whatever answers first, the last one counts

async function find(id, payload, none = "No such message waits or is claimed: it has fired, or was never taken in.") {
  const mine = ++searches;
  try {
    const all = await read("v1/messages/" + encodeURIComponent(id) + (payload ? "?payload=true" : ""));
    if (mine !== searches || $("confirm").open) return; // what somebody decides on stays as they have seen it
    keepFocus($("found"), all.messages.length ? all.messages.map(showMessage) : [el("p", {}, none)]);
  } catch (e) { if (mine === searches) $("found").replaceChildren(el("p", { class: "bad" }, "✖ " + sentence(e.message))); }
}
$("find").addEventListener("submit", (e) => {
  e.preventDefault();
  $("outcome").hidden = true; again = null;
  find($("id").value.trim(), false);
});

// ---- Again and again

let told = null; // when all was told last

/** Says of the tables whether they are those of now. */
function fresh(now) {
  if (now) told = Date.now();
  $("stale").hidden = now;
  $("stale").textContent = told === null ? "▲ What follows cannot be told yet."
    : `▲ What follows is from ${clock(told)}, ${lasting((Date.now() - told) / 1000)} ago.`;
}

async function look() {
  try {
    info = await read("v1/info");
    $("about").textContent = `node ${info.node || "…"} · ${info.version ?? ""}` + (info.control ? "" : " · read only");
    const [lanes, nodes, positions] = await Promise.all([read("v1/lanes"), read("v1/nodes"), read("v1/positions")]);
    fresh(true);
    ahead = new Date(lanes.at) - Date.now(); storeAhead = new Date(nodes.at) - Date.now();
    showLanes(lanes); showNodes(nodes); showPositions(positions);
    const { bad, warn } = judge(lanes, nodes);
    if (bad.length) verdict("bad", "✖ It is not well", [...bad, ...warn]);
    else if (warn.length) verdict("warn", "▲ Look at this", warn);
    else verdict("good", "✔ All is well", []);
  } catch (e) {
    fresh(false);
    if (info.outages?.length && !(e instanceof TypeError)) verdict("bad", "✖ It is not well", outages());
    else verdict("bad", "✖ It cannot be told", [e.message]);
  }
  await showQueues({ el, read, state, ago, ahead: () => ahead });
  if (again !== null) {
    const id = again;
    again = null;
    await find(id, false, gone);
  }
  try { charts(await (await fetch("metrics")).text()); } catch { /* the charts have a gap */ }
}

(async () => {
  for (;;) {
    if (!document.hidden || looks.length === 0) await look();
    await new Promise((resolve) => setTimeout(resolve, every));
  }
})();
