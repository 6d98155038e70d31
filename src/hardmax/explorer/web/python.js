// "Copy as Python": a short program that asks the library for the same count. Numbers are written so that Python
// reads the very same floats.

const array = value => JSON.stringify(value).replaceAll("],[", "], [").replaceAll(",", ", ").replaceAll(",  ", ", ").replaceAll("true", "True").replaceAll("false", "False");
const rows = list => `[\n${list.map(row => `    ${array(row)},\n`).join("")}]`;

const writers = {
  head({ keys, scores, rule, temperature }) {
    const names = scores === "attention" ? ["keys", "biases", "attention_diagram"] : ["sites", "weights", "power_diagram"];
    const plane = rows(keys.map(key => key.slice(0, 2))), weights = array(keys.map(key => (scores === "voronoi" ? 0 : key[2])));
    const [first, second, call] = names;
    const head = `import hardmax as hm\n\n${first} = ${plane}\n${second} = ${weights}\n`;
    if (rule === "hardmax") return `${head}diagram = hm.${call}(${first}, ${second})\nprint(len(set(diagram.tie_group[diagram.nonempty].tolist())), "cells;", "keys that never win:", (~diagram.nonempty).nonzero()[0].tolist())\n`;
    if (rule === "top-2") return `${head}print(hm.${call}(${first}, ${second}, k=2).n_cells, "cells of pairs")\n`;
    const exact = scores === "attention" ? "" : `from fractions import Fraction as F\n\n# least squared distance minus weight is the largest of these scores, kept without rounding\nbiases = [(F(w) - F(x) ** 2 - F(y) ** 2) / 2 for (x, y), w in zip(sites, weights)]\n`;
    return `${head}${exact}head = hm.Attention([${first}], [biases], [[[0]] * len(${first})], rule="sparsemax", temperature=${temperature}, skip=False)\nprint(hm.count_cells(hm.Network([head]), hm.WholeSpace(2)).n_cells, "cells of supports")\n`;
  },
  heads({ heads }) {
    return `import hardmax as hm\n\nheads = [\n${heads.map(keys => `    ${array(keys.map(key => key.slice(0, 2)))},\n`).join("")}]\nbiases = ${array(heads.map(keys => keys.map(key => key[2])))}\nprint(hm.minkowski_vertices(heads, biases).count, "cells")\n`;
  },
  depth({ blocks, shown, half }) {
    const written = blocks.slice(0, shown).map(block => (block.kind === "relu"
      ? `hm.FeedForward(\n        ${array(block.w_in)},\n        ${array(block.b_in)},\n        ${array(block.w_out)},\n        ${array(block.b_out)},\n        skip=${block.skip ? "True" : "False"},\n    )`
      : `hm.Attention(\n        ${array(block.scores)},\n        ${array(block.biases)},\n        ${array(block.outputs)},\n        skip=${block.skip ? "True" : "False"},\n    )`));
    if (!written.length) return 'print(1, "cell: no block is shown")\n';
    return `import hardmax as hm\n\nnetwork = hm.Network([\n${written.map(text => `    ${text},\n`).join("")}])\nregions = hm.enumerate_regions(network, hm.Box.cube(2, ${-half}, ${half}))\nprint(regions.n_cells, "cells,", regions.n_regions, "linear regions")\n`;
  },
  flow({ tokens, forms, first, last }) {
    const on = list => array(list.flatMap((yes, h) => (yes ? [h] : [])));
    return `import numpy as np\n\nimport hardmax as hm\n\nX = np.array(${array(tokens)})  # hundredths\nforms = np.array(${array(forms)})\nfirst, last = ${on(first)}, ${on(last)}  # the heads that are on\n\n\ndef partner(M):\n    return hm.MaxPosition(lambda q, k: np.einsum("bsd,de,bte->bst", q[:, :, 0], M, k[:, :, 0]))\n\n\ndef best_pair(M):\n    return hm.MaxPosition(hm.KeyScore(lambda k: np.einsum("btid,de,btje->btij", k, M, k).max((-1, -2))))\n\n\nlayers = [{"tokens": [partner(forms[h]) for h in first]}] if first else []\nif last:\n    layers.append({"cls": [best_pair(forms[h]) for h in last]})\n    heads = tuple(len(layer.get("tokens", layer.get("cls"))) for layer in layers)\n    flow = hm.information_sets(hm.Architecture(len(X), 2, heads, 2 * int(np.prod(heads))), hm.Plan(layers), X)\n    print(int(flow.sets().sum()), "tokens known to CLS:", np.flatnonzero(flow.sets()[0]).tolist())\nelse:\n    print(0, "tokens known to CLS")\n`;
  },
};

export const pythonOf = state => writers[state.mode](state);
