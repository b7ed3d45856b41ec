// SPDX-License-Identifier: MIT OR Apache-2.0
//! The JSON that Grafana imports. Every query is narrowed by job and instance, queries of single flows also by connection.

use serde_json::{Value, json};

use crate::dashboards::panel::{Dashboard, Draw, Panel};

/// Width of a dashboard, in Grafana's columns.
const WIDTH: usize = 24;
const MATCHERS: &str = r#"job=~"$job",instance=~"$instance""#;
/// Stands for the matchers of job, instance and connection.
const OF_FLOWS: &str = "$f";
const FLOW_MATCHER: &str = r#"connection=~"$connection""#;

/// A query with the matchers filled in. Grafana replaces its own variables.
pub fn query(text: &str) -> String {
    let of_flows = format!("{MATCHERS},{FLOW_MATCHER}");
    text.replace("$m", MATCHERS).replace(OF_FLOWS, &of_flows).replace("$r", "$__rate_interval")
}

/// The file of a dashboard.
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
            panels.push(panel_json(panel, panels.len() + 1, [left, top, w, h]));
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
        "templating": { "list": variables(shows_flows(dashboard)) },
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
        Draw::Table => (WIDTH / 2, 6),
        Draw::Lines | Draw::Stack => (WIDTH / 2, 8),
    }
}

fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// Whether a panel can be narrowed to a connection.
fn shows_flows(dashboard: &Dashboard) -> bool {
    let panels = dashboard.rows.iter().flat_map(|(_, row)| *row);
    panels.flat_map(|panel| panel.queries).any(|(text, _)| text.contains(OF_FLOWS))
}

fn variables(with_connections: bool) -> Vec<Value> {
    let of_label = |name: &str, title: &str, query: &str| {
        json!({
            "name": name, "label": title, "type": "query", "datasource": datasource(),
            "query": { "query": query, "refId": name }, "definition": query, "refresh": 2, "sort": 1,
            "multi": true, "includeAll": true, "allValue": ".+",
            "current": { "text": ["All"], "value": ["$__all"] },
        })
    };
    let mut variables = vec![
        json!({ "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {} }),
        of_label("job", "Job", "label_values(mpwatch_build_info, job)"),
        of_label("instance", "Instance", "label_values(mpwatch_build_info{job=~\"$job\"}, instance)"),
    ];
    variables.extend(with_connections.then(|| {
        let query = format!("label_values(mpwatch_connection_info{{{MATCHERS}}}, connection)");
        of_label("connection", "Connection", &query)
    }));
    variables
}

fn panel_json(panel: &Panel, id: usize, [x, y, w, h]: [usize; 4]) -> Value {
    let is_now = matches!(panel.draw, Draw::Stat | Draw::Table);
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..='Z')
        .map(|((text, legend), letter)| {
            json!({
                "refId": letter.to_string(), "datasource": datasource(), "expr": query(text),
                "legendFormat": legend, "instant": is_now, "range": !is_now,
                "format": if panel.draw == Draw::Table { "table" } else { "time_series" },
            })
        })
        .collect();
    let mut json = json!({
        "id": id,
        "title": panel.title,
        "description": panel.about,
        "datasource": datasource(),
        "gridPos": { "x": x, "y": y, "w": w, "h": h },
        "targets": targets,
        "fieldConfig": { "defaults": { "unit": panel.unit }, "overrides": [] },
    });
    let (kind, options) = match panel.draw {
        Draw::Stat => {
            ("stat", json!({ "reduceOptions": { "calcs": ["lastNotNull"] }, "colorMode": "value" }))
        }
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
    if panel.draw == Draw::Table {
        json["transformations"] = json!([{
            "id": "organize",
            "options": { "excludeByName": { "Time": true, "Value": true, "__name__": true } },
        }]);
    }
    json
}
