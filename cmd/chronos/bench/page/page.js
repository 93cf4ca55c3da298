// The plots of a result of `chronos bench`: `data` is the result as its JSON has it, and `rates` the tries of a search.
"use strict";
(() => {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), line = style.getPropertyValue("--line");
  const colours = ["#2563eb", "#d97706", "#15803d", "#9333ea", "#dc2626", "#0891b2", "#6b7280"];
  const plots = document.getElementById("plots");

  // plot draws one picture: columns[0] is x, and names are those of the others.
  const plot = (title, about, names, columns, {x, y, log, dots} = {}) => {
    if (!columns[0] || !columns[0].length) return;
    const room = plots.appendChild(document.createElement("section"));
    room.appendChild(document.createElement("h2")).textContent = title;
    room.appendChild(document.createElement("p")).textContent = about;
    const axis = more => ({stroke: ink, grid: {stroke: line, width: 1}, ticks: {stroke: line}, ...more});
    const drawn = new uPlot({
      width: room.clientWidth, height: 280, cursor: {drag: {x: true, y: false}},
      scales: {x: {time: false, ...(log ? {distr: 3, log: 10} : {})}},
      axes: [axis({values: x}), axis({values: y, size: 64})],
      series: [{label: "x", value: (u, v) => v == null ? "" : x(u, [v])[0]}].concat(names.map((label, i) => ({
        label, stroke: colours[i % colours.length], width: 1.5, points: {show: !!dots}, spanGaps: true,
        value: (u, v) => v == null ? "" : y(u, [v])[0],
      }))),
    }, columns, room);
    new ResizeObserver(() => drawn.setSize({width: room.clientWidth, height: 280})).observe(room);
  };

  const seconds = (u, vs) => vs.map(v => v + " s");
  const whole = (u, vs) => vs.map(v => v.toLocaleString("en"));
  const millis = (u, vs) => vs.map(v => v.toLocaleString("en") + " ms");
  const rate = (u, vs) => vs.map(v => v.toLocaleString("en") + "/s");

  if (rates && rates.length) {
    const tries = [...rates].sort((a, b) => a.rate - b.rate);
    plot("Lateness by rate", "Each try, received, after the due instant.", ["p50", "p99.9 held", "p99.9 failed"], [
      tries.map(t => t.rate), tries.map(t => t.p50), tries.map(t => t.held ? t.p999 : null), tries.map(t => t.held ? null : t.p999),
    ], {x: rate, y: millis, dots: true});
  }
  if (!data) return;

  // The cumulative distribution, stretched towards its end: 10 is p90, 1,000 is p99.9.
  const curves = [["received", data.received], [data.stamped && data.stamped.clock === "broker" ? "appended" : "stamped", data.stamped]]
    .filter(c => c[1] && c[1].curve);
  if (curves.length) {
    const xs = [...new Set(curves.flatMap(c => c[1].curve.map(p => p.share)))].sort((a, b) => a - b);
    const at = c => { const by = new Map(c.curve.map(p => [p.share, p.late_ms])); return xs.map(s => by.get(s) ?? null); };
    plot("Lateness by percentile", "After the due instant; negative is early.", curves.map(c => c[0]),
      [xs.map(s => 1 / (1 - s)), ...curves.map(c => at(c[1]))], {
        log: true, y: millis,
        x: (u, vs) => vs.map(v => v == null ? "" : "p" + +(100 * (1 - 1 / v)).toPrecision(7)),
      });
  }
  const all = data.seconds || [], at = all.map(s => Math.round(s.at_ms / 100) / 10);
  const per = all.map((s, i) => (s.at_ms - (i ? all[i - 1].at_ms : 0)) / 1000);
  const taken = all.some(s => s.taken >= 0);
  plot("Messages a second", "Sent, acknowledged by Kafka, taken in by the service, and received.",
    ["sent", "acknowledged", ...(taken ? ["taken in"] : []), "received"], [
      at, all.map((s, i) => Math.round(s.sent / per[i])), all.map((s, i) => Math.round(s.acknowledged / per[i])),
      ...(taken ? [all.map((s, i) => Math.round((s.taken - (i ? all[i - 1].taken : 0)) / per[i]))] : []),
      all.map((s, i) => Math.round(s.came / per[i])),
    ], {x: seconds, y: rate});
  plot("Lateness over time", "Of what was received in each second, after the due instant, the warm-up included.", ["p50", "p99", "max"],
    [at, ...["p50_ms", "p99_ms", "max_ms"].map(k => all.map(s => s[k] ?? null))], {x: seconds, y: millis});
  plot("Waiting", "Acknowledged by Kafka, and not received yet.", ["messages"], [at, all.map(s => s.waiting)], {x: seconds, y: whole});
  const groups = (data.processes || []).map(p => p.name);
  const use = (name, of) => all.map(s => { const u = (s.use || []).find(u => u.name === name); return u ? of(u) : null; });
  plot("CPUs", "By process.", groups, groups.length ? [at, ...groups.map(g => use(g, u => Math.round(100 * u.cpus) / 100))] : [],
    {x: seconds, y: whole});
  plot("Memory", "Resident, by process; what several processes share counts once.", groups,
    groups.length ? [at, ...groups.map(g => use(g, u => Math.round(u.memory_bytes / 1e5) / 10))] : [],
    {x: seconds, y: (u, vs) => vs.map(v => v + " MB")});
})();
