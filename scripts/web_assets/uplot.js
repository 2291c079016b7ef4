// Line and bar charts.
import uPlot from "uplot";

globalThis.uPlot = uPlot;
