// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Grafana dashboards of `dashboards/grafana`, generated from lists of panels. A test compares the files with the generated JSON.

mod grafana;
mod panel;
mod panels;

pub use grafana::{file, query, sql};
pub use panel::{Dashboard, Draw, Panel, Source};

/// The dashboards with Prometheus as the data source.
pub static DASHBOARDS: &[Dashboard] =
    &[panels::OVERVIEW, panels::PATHS, panels::FLOWS, panels::ENERGY, panels::HEALTH];

/// The dashboard with ClickHouse as the data source.
pub static FLEET: &Dashboard = &panels::FLEET;
