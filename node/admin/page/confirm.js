// The question that comes before whatever changes something.
import { nodes, said, sentence } from "./text.js";

const $ = (id) => document.getElementById(id);
let question = null; // the one that was asked last

/**
 * Asks whether something is to be done, and does it. What is refused is said in the dialog, which stays open. Returns
 * what act returns, or null if it is left as it is. What is being done is not left any more: if the dialog is closed
 * meanwhile, what has become of it is told all the same: by failed, if it has failed. Title, text and warn are texts
 * and elements.
 */
export function confirm({ title, text, warn, when, why, yes, act, failed }) {
  const dialog = $("confirm"), form = $("confirm-form"), wrong = $("confirm-wrong");
  if (dialog.open) return Promise.resolve(null); // one question at a time
  const mine = question = {};
  $("confirm-title").replaceChildren(...nodes(title));
  $("confirm-text").replaceChildren(...nodes(text));
  $("confirm-warn").replaceChildren(...nodes(warn ? ["▲ ", warn] : [])); $("confirm-warn").hidden = !warn;
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
      if (doing) doing.then(resolve, (e) => { failed?.(e); resolve(null); }); else resolve(result);
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
        if (mine === question) { wrong.replaceChildren("✖ ", said(sentence(e.message))); wrong.hidden = false; }
      } finally {
        doing = null;
        if (mine === question) $("confirm-yes").disabled = $("confirm-no").disabled = false;
      }
    }, options);
  });
}
