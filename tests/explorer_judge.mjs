// Reads states of the explorer from standard input, one per line, and answers with what its own modules count:
// in floats, and in integers. Nothing of the page is needed for that.

import { createInterface } from "node:readline";
import { headCells } from "../src/hardmax/explorer/web/head.js";
import { headsCells } from "../src/hardmax/explorer/web/heads.js";
import { networkCells } from "../src/hardmax/explorer/web/network.js";
import { informationFlow } from "../src/hardmax/explorer/web/flow.js";

function judged(state, exact) {
  if (state.mode === "flow") {
    const { known } = informationFlow(state);
    return { count: known.length, known, complete: true };
  }
  const cells = { head: headCells, heads: headsCells, depth: networkCells }[state.mode];
  const found = cells(state, exact);
  const answer = { count: found.count, complete: found.complete };
  if (state.mode === "head") {
    answer.empty = [...found.beaten].filter(([, why]) => why.by).map(([j]) => j).sort((a, b) => a - b);
    answer.beaten = [...found.beaten].map(([j, why]) => [j, why.by ?? null]);
  }
  return answer;
}

for await (const line of createInterface({ input: process.stdin })) {
  const state = JSON.parse(line);
  console.log(JSON.stringify({ live: judged(state, false), exact: judged(state, true) }));
}
