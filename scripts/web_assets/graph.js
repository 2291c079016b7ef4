// The graph's data structure, its communities, the input of its layout, and its renderer.
import { UndirectedGraph } from "graphology";
import louvain from "graphology-communities-louvain";
import forceAtlas2 from "graphology-layout-forceatlas2";
import { graphToByteArrays } from "graphology-layout-forceatlas2/helpers";
import Sigma from "sigma";

globalThis.memvaultGraph = {
  UndirectedGraph,
  Sigma,
  louvain,
  inferSettings: forceAtlas2.inferSettings,
  graphToByteArrays,
};
