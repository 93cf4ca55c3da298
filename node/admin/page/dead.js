// Dead letters: the latest of a topic, and their way back to the topics that they came from.
import { ago, content, el, fill, foreign, plural, said, sentence, time } from "./text.js";
import { me, read, seen, send } from "./node.js";
import { confirm } from "./confirm.js";
import { showFailure } from "./messages.js";

const $ = (id) => document.getElementById(id);
let topics = null, asked = 0;

/** Shows the link to dead letters, where the node has any topic of them. */
export async function beginDead() {
  if (topics !== null) return;
  try { ({ topics } = await read("v1/dead-letters")); } catch { return; } // it is asked again with the next look
  $("nav-dead").hidden = topics.length === 0;
  $("dead-topic").replaceChildren(...topics.map((t) => el("option", { value: t }, t)));
}

const tally = (list) => list.map((t, i) => [i ? ", " : "", foreign(t.what || "no reason"), " " + t.n.toLocaleString("en")]);
const sum = (list) => list.reduce((n, t) => n + t.n, 0);
const letters = (n) => plural({ n }, "dead letter");

/** Shows the dead letters of a topic, of a reason and an id where the query has these. */
export async function showDead(topic, query) {
  const mine = ++asked, rows = $("dead").tBodies[0], says = $("dead-says");
  await beginDead();
  if (mine !== asked) return;
  topic ||= topics?.[0] ?? "";
  $("dead-topic").value = topic;
  for (const name of ["reason", "id"]) fill($("dead-" + name), query.get(name) ?? "");
  rows.replaceChildren();
  $("dead-replay").hidden = true;
  says.className = "small";
  if (!topic && topics === null) { says.textContent = "The node has not answered so far: look again in a moment."; return; }
  if (!topic) { says.textContent = "This node has no dead-letter topic: no route names one."; return; }
  says.textContent = "Looking…";
  let got;
  try { got = await read("v1/dead-letters/" + encodeURIComponent(topic) + "?" + query); }
  catch (e) {
    if (mine !== asked) return;
    says.className = "bad";
    says.replaceChildren("✖ ", said(sentence(e.message)));
    return;
  }
  if (mine !== asked) return;
  rows.replaceChildren(...got.letters.map((l) => el("tr", {},
    el("th", { scope: "row" }, l.id ? foreign(l.id) : "no id"), el("td", { class: "state" }, foreign(l.reason || "no dead letter of Chronos"), el("div", { class: "small" }, said(l.error ?? ""))),
    el("td", { class: "name", "data-label": "From" }, l.source ? foreign(l.source) : "unknown"),
    el("td", { class: "at", "data-label": "Written" }, time(l.written), el("div", { class: "small" }, ago(l.written))),
    el("td", { class: "at", "data-label": "Place" }, `${l.partition}:${l.offset}`))));
  const some = query.get("reason") || query.get("id");
  says.replaceChildren(...el("p", {}, got.matched === 0 ? (some ? "No dead letter is like that" : "There are no dead letters on it")
    : [letters(got.matched), ": ", tally(got.reasons), got.matched > got.letters.length ? `; the latest ${got.letters.length} are shown` : ""],
  got.older ? [`, of the last ${got.looked.toLocaleString("en")} records; there are older ones: `, el("code", {}, "chronos dead list"), " shows all."] : ".").childNodes);
  $("dead-replay").hidden = !seen.info.control || got.matched === 0 && !got.older;
  $("dead-replay").onclick = () => replay(topic, { reason: query.get("reason") ?? "", id: query.get("id") ?? "" });
}

/** Goes through all pages from a cursor on, and adds up what has become of them. */
async function walk(topic, body, cursor, tell) {
  const all = { matched: 0, back: [], again: [], left_out: [], window: "" };
  const add = (to, list) => { for (const t of list) { const has = to.find((o) => o.what === t.what); if (has) has.n += t.n; else to.push({ ...t }); } };
  do {
    let got;
    try { got = await send("POST", `v1/dead-letters/${encodeURIComponent(topic)}/replay`, { ...body, cursor }); }
    catch (e) {
      if (!body.dry_run && sum(all.back)) e.message = e.message.replace(/\.?$/, ".") + ` On the pages before it ${letters(sum(all.back))} were put back.`;
      throw e;
    }
    all.matched += got.matched;
    for (const k of ["back", "again", "left_out"]) add(all[k], got[k]);
    all.window ||= got.window;
    cursor = got.next ?? "";
    tell?.(all.matched);
  } while (cursor);
  return all;
}

/** Counts what would go back, asks, and puts it back: what was counted, and nothing that has come since. */
async function replay(topic, only) {
  const says = $("dead-replay");
  let dry;
  says.disabled = true;
  try { dry = await walk(topic, { only, dry_run: true }, "", (n) => { says.textContent = `Counting: ${n.toLocaleString("en")}…`; }); }
  catch (e) { showFailure(e); return; }
  finally { says.disabled = false; says.textContent = "Put them back…"; }
  const n = sum(dry.back);
  const stays = dry.left_out.map((t) => [" ", letters(t.n), t.n === 1 ? " stays: " : " stay: ", said(t.what), "."]);
  if (n === 0) {
    $("outcome").hidden = false;
    $("outcome").replaceChildren(el("strong", { class: "warn" }, "▲ Nothing goes back."), ...el("p", {}, stays.length ? stays : " There is none.").childNodes);
    return;
  }
  const done = await confirm({
    title: [`Put ${letters(n)} back?`],
    text: [n === 1 ? "It is" : "They are", " written to the input topic that ", n === 1 ? "it" : "each", " came from: ", tally(dry.back),
      ". Most deadlines have passed, so what comes in fires at once. The copies on ", foreign(topic), " stay: a second replay fires them again.", stays],
    warn: dry.again.length ? [letters(sum(dry.again)), " of these ", sum(dry.again) === 1 ? "was" : "were", " refused for what the record says (", tally(dry.again),
      "), and will be refused again unless the settings have changed."] : "",
    why: "What for? It goes into the log.", yes: n === 1 ? "Put it back" : "Put them back", failed: showFailure,
    act: ({ reason }) => walk(topic, { only, by: me(), reason }, dry.window),
  });
  if (!done) return;
  $("outcome").hidden = false;
  $("outcome").replaceChildren(...el("p", {}, el("strong", { class: "good" }, "✔ Put back."), ` ${letters(sum(done.back))} of `, foreign(topic), ": ", tally(done.back), ".").childNodes);
  $("outcome").focus();
}

$("dead-form").addEventListener("submit", (e) => {
  e.preventDefault();
  const query = new URLSearchParams();
  for (const name of ["reason", "id"]) if (content($("dead-" + name))) query.set(name, content($("dead-" + name)));
  const to = "#/dead/" + encodeURIComponent($("dead-topic").value) + (query.size ? "?" + query : "");
  if (location.hash === to) showDead($("dead-topic").value, query); else location.hash = to;
});
