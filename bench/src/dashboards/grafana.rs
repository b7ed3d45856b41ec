// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the JSON that Grafana imports. PromQL queries are restricted by job and instance, queries of flows also by connection, SQL
//! queries by the displayed period.

use serde_json::{Value, json};

use crate::dashboards::panel::{Dashboard, Draw, Panel, Source};

/// Width of a dashboard, in Grafana's columns.
const WIDTH: usize = 24;
const MATCHERS: &str = r#"job=~"$job",instance=~"$instance""#;
/// Placeholder for the matchers of job, instance and connection.
const OF_FLOWS: &str = "$f";
const FLOW_MATCHER: &str = r#"connection=~"$connection""#;
/// The condition on the period in queries for `clickhouse-client`, and its replacement, in which Grafana sets the times in milliseconds.
const LAST_HOURS: &str = ">= toUnixTimestamp64Nano(now64(9)) - {hours:UInt64} * 3600000000000";
const DISPLAYED: &str = "BETWEEN $__from * 1000000 AND $__to * 1000000";

/// A PromQL query with the matchers filled in. Grafana later replaces its own variables.
pub fn query(text: &str) -> String {
    let of_flows = format!("{MATCHERS},{FLOW_MATCHER}");
    text.replace("$m", MATCHERS).replace(OF_FLOWS, &of_flows).replace("$r", "$__rate_interval")
}

/// An SQL query for the displayed period, without comments. Grafana later replaces its own variables.
pub fn sql(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
    lines.join("\n").replace(LAST_HOURS, DISPLAYED)
}

/// The JSON file of a dashboard.
pub fn file(dashboard: &Dashboard) -> Value {
    let mut panels = Vec::new();
    let mut top = 0;
    for (title, row) in dashboard.rows {
        let id = panels.len() + 1;
        let position = json!({ "x": 0, "y": top, "w": WIDTH, "h": 1 });
        panels.push(json!({
            "id": id, "type": "row", "title": title, "collapsed": false, "gridPos": position, "panels": [],
        }));
        top += 1;
        let mut left = 0;
        let mut height = 0;
        for panel in *row {
            let (w, h) = size(panel, row.len());
            if left + w > WIDTH {
                (left, top, height) = (0, top + height, 0);
            }
            height = height.max(h);
            panels.push(panel_json(dashboard.source, panel, panels.len() + 1, [left, top, w, h]));
            left += w;
        }
        top += height;
    }
    json!({
        "title": dashboard.title,
        "uid": format!("mpwatch-{}", dashboard.name),
        "description": dashboard.about,
        "tags": ["mpwatch", "mptcp"],
        "schemaVersion": 39,
        "version": 1,
        "editable": false,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": variables(dashboard) },
        "links": [{
            "title": "mpwatch", "type": "dashboards", "tags": ["mpwatch"], "asDropdown": true,
            "includeVars": true, "keepTime": true,
        }],
        "annotations": { "list": [] },
        "panels": panels,
    })
}

fn size(panel: &Panel, panels_in_row: usize) -> (usize, usize) {
    match panel.draw {
        Draw::Stat => (WIDTH / panels_in_row.clamp(4, 6), 4),
        Draw::Table => (WIDTH, 6),
        Draw::Lines | Draw::Stack => (WIDTH / 2, 8),
    }
}

/// Grafana's type of a data source. For ClickHouse, this is the plugin by Grafana.
fn plugin(source: Source) -> &'static str {
    match source {
        Source::Prometheus => "prometheus",
        Source::ClickHouse => "grafana-clickhouse-datasource",
    }
}

fn datasource(source: Source) -> Value {
    json!({ "type": plugin(source), "uid": "${datasource}" })
}

/// Whether at least one panel of a dashboard can be restricted to a connection.
fn shows_flows(dashboard: &Dashboard) -> bool {
    let panels = dashboard.rows.iter().flat_map(|(_, row)| *row);
    panels.flat_map(|panel| panel.queries).any(|(text, _)| text.contains(OF_FLOWS))
}

fn variables(dashboard: &Dashboard) -> Vec<Value> {
    let source = dashboard.source;
    let datasource = json!({
        "name": "datasource", "label": "Data source", "type": "datasource", "query": plugin(source), "current": {},
    });
    let labels = if source == Source::Prometheus { labels(shows_flows(dashboard)) } else { Vec::new() };
    std::iter::once(datasource).chain(labels).collect()
}

fn labels(with_connections: bool) -> Vec<Value> {
    let of_label = |name: &str, title: &str, query: &str| {
        json!({
            "name": name, "label": title, "type": "query", "datasource": datasource(Source::Prometheus),
            "query": { "query": query, "refId": name }, "definition": query, "refresh": 2, "sort": 1,
            "multi": true, "includeAll": true, "allValue": ".+",
            "current": { "text": ["All"], "value": ["$__all"] },
        })
    };
    let mut variables = vec![
        of_label("job", "Job", "label_values(mpwatch_build_info, job)"),
        of_label("instance", "Instance", "label_values(mpwatch_build_info{job=~\"$job\"}, instance)"),
    ];
    variables.extend(with_connections.then(|| {
        let query = format!("label_values(mpwatch_connection_info{{{MATCHERS}}}, connection)");
        of_label("connection", "Connection", &query)
    }));
    variables
}

/// The JSON of a panel's query, in the format of its data source.
fn target(source: Source, draw: Draw, (text, legend): (&str, &str), letter: char) -> Value {
    let is_now = matches!(draw, Draw::Stat | Draw::Table);
    let is_table = draw == Draw::Table;
    let common = json!({ "refId": letter.to_string(), "datasource": datasource(source) });
    let own = match source {
        Source::Prometheus => json!({
            "expr": query(text), "legendFormat": legend, "instant": is_now, "range": !is_now,
            "format": if is_table { "table" } else { "time_series" },
        }),
        Source::ClickHouse => json!({
            "editorType": "sql", "rawSql": sql(text), "format": u8::from(is_table),
            "queryType": if is_table { "table" } else { "timeseries" },
        }),
    };
    let fields = [common, own].into_iter().filter_map(|fields| fields.as_object().cloned()).flatten();
    Value::Object(fields.collect())
}

fn panel_json(source: Source, panel: &Panel, id: usize, [x, y, w, h]: [usize; 4]) -> Value {
    let queries = panel.queries.iter().zip('A'..='Z');
    let targets: Vec<Value> =
        queries.map(|(query, letter)| target(source, panel.draw, *query, letter)).collect();
    let mut json = json!({
        "id": id,
        "title": panel.title,
        "description": panel.about,
        "datasource": datasource(source),
        "gridPos": { "x": x, "y": y, "w": w, "h": h },
        "targets": targets,
        "fieldConfig": { "defaults": { "unit": panel.unit }, "overrides": [] },
    });
    let (kind, options) = match panel.draw {
        Draw::Stat => ("stat", json!({ "reduceOptions": { "calcs": ["lastNotNull"] }, "colorMode": "none" })),
        Draw::Table => ("table", json!({ "showHeader": true })),
        Draw::Lines | Draw::Stack => (
            "timeseries",
            json!({
                "legend": { "displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"] },
                "tooltip": { "mode": "multi", "sort": "desc" },
            }),
        ),
    };
    json["type"] = kind.into();
    json["options"] = options;
    if panel.draw == Draw::Stack {
        json["fieldConfig"]["defaults"]["custom"] =
            json!({ "stacking": { "mode": "normal" }, "fillOpacity": 40, "lineWidth": 1 });
    }
    if panel.draw == Draw::Table && source == Source::Prometheus {
        json["transformations"] = json!([{
            "id": "organize",
            "options": { "excludeByName": { "Time": true, "Value": true, "__name__": true } },
        }]);
    }
    json
}
