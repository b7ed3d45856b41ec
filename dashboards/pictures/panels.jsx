// SPDX-License-Identifier: MIT OR Apache-2.0
// The page of which draw.mjs takes a screenshot: panels of a dashboard, drawn by Grafana's own components from answers of its data source.
// This file also has the default options that Grafana's panels pass to these components.

import {
    EventBusSrv, FieldType, createTheme, dateTime, getDisplayProcessor, getFieldDisplayName, reduceField,
    standardTransformers, standardTransformersRegistry, toDataFrame, transformDataFrame,
} from "@grafana/data";
import { BigValue, GlobalStyles, Icon, PanelChrome, PanelContextProvider, ThemeContext, TimeSeries } from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import { createRoot } from "react-dom/client";

const { dashboard, answers, from, to, step, width } = window.input;
const theme = createTheme({ colors: { mode: "dark" } });
const timeRange = { from: dateTime(from), to: dateTime(to), raw: dashboard.time };

/** Grafana's grid: 24 columns, rows of 30 pixels, and the space between panels. */
const [COLUMNS, ROW, GAP] = [24, 30, 8];
const HEADER = 40;

/** Defaults of Grafana's time series panel. */
const LINES = {
    drawStyle: "line", lineInterpolation: "linear", lineWidth: 1, fillOpacity: 0, gradientMode: "none", pointSize: 5,
    showPoints: "auto", spanNulls: false, insertNulls: false, axisPlacement: "auto", axisLabel: "", axisGridShow: true,
    scaleDistribution: { type: "linear" }, stacking: { mode: "none", group: "A" },
    hideFrom: { viz: false, legend: false, tooltip: false }, thresholdsStyle: { mode: "off" },
};
/** Defaults of Grafana's stat and table panels. */
const THRESHOLDS = {
    mode: "absolute", steps: [{ value: -Infinity, color: "green" }, { value: 80, color: "red" }],
};

standardTransformersRegistry.setInit(() =>
    [standardTransformers.organizeFieldsTransformer, standardTransformers.mergeTransformer]
        .map((one) => ({ ...one, transformation: async () => one })));

/** Frames for a chart with a line for each series. */
function lines(target, answer) {
    const named = (name, times, values) => toDataFrame({
        refId: target.refId,
        fields: [
            { name: "Time", type: FieldType.time, values: times, config: { interval: step * 1000 } },
            { name: "Value", type: FieldType.number, values, config: { displayNameFromDS: name } },
        ],
    });
    if (answer.meta) {
        const [series, value] = ["series", "value"].map((name) => answer.meta.findIndex((one) => one.name === name));
        const rows = Map.groupBy(answer.data, (row) => row[series]);
        const time = (row) => Date.parse(`${row[0].replace(" ", "T")}Z`);
        return [...rows].map(([name, rows]) => named(String(name), rows.map(time), rows.map((row) => Number(row[value]))));
    }
    return answer.map(({ metric, values, value }) => {
        const label = (_, name) => metric[name] ?? "";
        const points = values ?? [value];
        const name = target.legendFormat.replace(/\{\{(\w+)\}\}/g, label) || " ";
        return named(name, points.map(([time]) => time * 1000), points.map(([, number]) => number === "NaN" ? null : Number(number)));
    });
}

/** One frame with a row for each series or result. */
function table(target, answer, isOnly) {
    if (answer.meta) {
        const column = ({ name, type }, index) => {
            const isNumber = /Int|Float|Decimal/.test(type);
            const values = answer.data.map((row) => row[index]).map((cell) => isNumber && cell !== null ? Number(cell) : cell);
            return { name, type: isNumber ? FieldType.number : FieldType.string, values };
        };
        return [toDataFrame({ refId: target.refId, fields: answer.meta.map(column) })];
    }
    const labels = [...new Set(answer.flatMap(({ metric }) => Object.keys(metric)))].sort();
    const label = (name) => ({ name, type: FieldType.string, values: answer.map(({ metric }) => metric[name] ?? "") });
    const times = answer.map(({ value }) => value[0] * 1000);
    const values = answer.map(({ value }) => Number(value[1]));
    return [toDataFrame({
        refId: target.refId,
        fields: [
            { name: "Time", type: FieldType.time, values: times },
            ...labels.map(label),
            { name: isOnly ? "Value" : `Value #${target.refId}`, type: FieldType.number, values },
        ],
    })];
}

/** Adds the panel's configuration to the fields of its frames. */
function configured(panel, frames, own) {
    const { defaults } = panel.fieldConfig;
    let index = 0;
    for (const frame of frames) {
        for (const field of frame.fields) {
            const custom = { ...own.custom, ...defaults.custom };
            field.config = { ...own, ...defaults, ...field.config, custom };
            if (field.type === FieldType.number) field.state = { ...field.state, seriesIndex: index++ };
            const isDimensionless = field.type === FieldType.string || field.type === FieldType.time;
            if (isDimensionless) delete field.config.unit;
            field.display = getDisplayProcessor({ field, theme });
        }
    }
    return frames;
}

/** The frames of a panel, as its data source and its transformations make them. */
async function framesOf(panel) {
    const make = panel.type === "table" ? table : lines;
    const made = panel.targets.flatMap((target, index) => make(target, answers[panel.id][index], panel.targets.length === 1));
    const frames = await new Promise((done) => {
        transformDataFrame(panel.transformations ?? [], made).subscribe(done);
    });
    const own = panel.type === "timeseries"
        ? { color: { mode: "palette-classic" }, custom: LINES }
        : { color: { mode: "thresholds" }, thresholds: THRESHOLDS, custom: {} };
    return configured(panel, frames, own);
}

function Lines({ panel, frames, width, height }) {
    const legend = { showLegend: true, ...panel.options.legend };
    return <TimeSeries {...{ frames, width, height, timeRange, legend }} timeZone="utc" options={panel.options} theme={theme} />;
}

function Stat({ panel, frames, width, height }) {
    const each = width / frames.length;
    const value = (frame, index) => {
        const field = frame.fields[1];
        const calc = panel.options.reduceOptions.calcs[0];
        const value = { ...field.display(reduceField({ field, reducers: [calc] })[calc]) };
        if (frames.length > 1) value.title = getFieldDisplayName(field, frame, frames);
        return <BigValue key={index} {...{ value, height, theme }} width={each} graphMode="none" textMode="auto"
            colorMode={panel.options.colorMode} count={frames.length} />;
    };
    return <div style={{ display: "flex" }}>{frames.map(value)}</div>;
}

const Table = ({ frames, width, height }) => <TableNG data={frames[0]} {...{ width, height }} />;

const KINDS = { timeseries: Lines, stat: Stat, table: Table };

function Panel({ panel, frames, box }) {
    const Kind = KINDS[panel.type];
    const isEmpty = frames.every((frame) => frame.length === 0);
    const draw = (width, height) => isEmpty
        ? <div style={{ textAlign: "center", paddingTop: height / 2 - 10 }}>No data</div>
        : <Kind {...{ panel, frames, width, height }} />;
    return <PanelChrome title={panel.title} description={panel.description} width={box.width} height={box.height}
        padding={panel.type === "table" ? "none" : "md"}>{draw}</PanelChrome>;
}

const Row = ({ title }) => <div style={{ display: "flex", gap: 6, alignItems: "center", ...theme.typography.h5 }}>
    <Icon name="angle-down" />{title}
</div>;

function Page({ panels }) {
    const column = (width - 2 * GAP + GAP) / COLUMNS;
    const place = ({ panel, frames }) => {
        const { x, y, w, h } = panel.gridPos;
        const box = { width: w * column - GAP, height: h * (ROW + GAP) - GAP };
        const at = { position: "absolute", left: GAP + x * column, top: HEADER + GAP + y * (ROW + GAP), ...box };
        const inside = frames ? <Panel {...{ panel, frames, box }} /> : <Row title={panel.title} />;
        return <div key={panel.id} style={at}>{inside}</div>;
    };
    const title = { ...theme.typography.h4, padding: "12px 16px" };
    return <div>
        <div style={title}>{dashboard.title}</div>
        {panels.map(place)}
    </div>;
}

const style = { color: theme.colors.text.primary, ...theme.typography.body };
const context = { eventsScope: "global", eventBus: new EventBusSrv() };
Object.assign(document.body.style, { margin: 0, background: theme.colors.background.canvas });
const drawn = async (panel) => ({ panel, frames: panel.targets && await framesOf(panel) });
const page = (panels) => <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    <PanelContextProvider value={context}>
        <div style={style}><Page panels={panels} /></div>
    </PanelContextProvider>
</ThemeContext.Provider>;
const root = createRoot(document.getElementById("root"));
Promise.all(dashboard.panels.map(drawn)).then((panels) => root.render(page(panels)));
