// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of pods and containers, from the folders in which the kubelet keeps their logs. This needs neither the API server, nor a token, nor
//! the runtime's socket. The folders exist before a container starts, the links shortly after its start.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mpwatch_model::host::names::Pod;
use mpwatch_model::kernel::event::{CgroupName, KernelEvent, PodName};

use super::kubernetes::{PodGroup, container_log, pod_folder, pod_group};

/// Where the kubelet keeps logs: `pods/NAMESPACE_NAME_UID/CONTAINER/`, and links `containers/NAME_NAMESPACE_CONTAINER-ID.log`.
const LOGS: &str = "/var/log";
/// Minimum time between two readings of the folders, which happen only while a name is missing.
const READ_INTERVAL: Duration = Duration::from_millis(500);
/// How long a name is searched for. The path of a control group in use is reported again after a minute, which restarts the search.
const SEARCH_TIME: Duration = Duration::from_secs(10);
/// Maximum number of control groups whose names are searched for at the same time.
const MAX_SEARCHED: usize = 8_192;

/// A control group whose names are searched for.
struct Search {
    group: PodGroup,
    until: Instant,
    /// Whether the pod was reported, but not its container.
    is_reported: bool,
}

pub(super) struct Pods {
    logs: PathBuf,
    searched: HashMap<u64, Search>,
    listing: Listing,
    read_at: Option<Instant>,
    has_failed: bool,
}

impl Default for Pods {
    fn default() -> Self {
        Self::below(Path::new(LOGS))
    }
}

impl Pods {
    fn below(logs: &Path) -> Self {
        let logs = logs.to_owned();
        Self { logs, searched: HashMap::new(), listing: Listing::default(), read_at: None, has_failed: false }
    }

    /// Notes a control group with connections.
    pub(super) fn note(&mut self, name: &CgroupName, now: Instant) {
        if let Some(group) = pod_group(&name.path)
            && self.searched.len() < MAX_SEARCHED
        {
            let search = Search { group, until: now + SEARCH_TIME, is_reported: false };
            self.searched.insert(name.id, search);
        }
    }

    /// The names that were found since the last call.
    pub(super) fn resolve(&mut self, now: Instant) -> Vec<KernelEvent> {
        let mut found = self.find_searched();
        let is_due = self.read_at.is_none_or(|at| now.duration_since(at) >= READ_INTERVAL);
        if !self.searched.is_empty() && is_due {
            self.read(now);
            found.extend(self.find_searched());
        }
        self.searched.retain(|_, search| search.until > now);
        found
    }

    fn read(&mut self, now: Instant) {
        self.read_at = Some(now);
        match Listing::read(&self.logs) {
            Ok(listing) => self.listing = listing,
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                let folder = self.logs.join("pods");
                tracing::warn!(
                    "names of pods stay unknown: cannot read {}: {error}; see docs/kubernetes.md",
                    folder.display()
                );
            }
            Err(_) => {}
        }
    }

    /// Reports the pods in the listing, and ends the search for pods that are completely known.
    fn find_searched(&mut self) -> Vec<KernelEvent> {
        let mut found = Vec::new();
        let (listing, logs) = (&self.listing, &self.logs);
        self.searched.retain(|&cgroup, search| {
            let Some(pod) = listing.pod(&search.group, logs) else { return true };
            let is_complete = pod.container.is_some() || search.group.container.is_none();
            if is_complete || !search.is_reported {
                search.is_reported = true;
                found.push(KernelEvent::Pod(PodName { cgroup, pod }));
            }
            !is_complete
        });
        found
    }
}

/// The content of the log folders when they were read.
#[derive(Default)]
struct Listing {
    /// Pods by their UIDs.
    pods: HashMap<String, Pod>,
    /// Names of containers by their ids.
    containers: HashMap<String, String>,
}

impl Listing {
    /// Reads the folders. Not every node has the links to the logs of containers.
    fn read(logs: &Path) -> io::Result<Self> {
        let mut listing = Self::default();
        for name in names_in(&logs.join("pods"))? {
            listing.pods.extend(pod_folder(&name).map(|pod| (pod.uid.clone(), pod)));
        }
        for name in names_in(&logs.join("containers")).unwrap_or_default() {
            let container = container_log(&name);
            listing.containers.extend(container.map(|(id, name)| (id.to_owned(), name.to_owned())));
        }
        Ok(listing)
    }

    fn pod(&self, group: &PodGroup, logs: &Path) -> Option<Pod> {
        let folder = self.pods.get(&group.uid)?;
        let by_id = |id: &String| self.containers.get(id).cloned().or_else(|| only_container(logs, folder));
        Some(Pod { container: group.container.as_ref().and_then(by_id), ..folder.clone() })
    }
}

/// The only container of a pod. `None`: the pod has none or several, or its folder cannot be read.
fn only_container(logs: &Path, pod: &Pod) -> Option<String> {
    let folder = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
    let mut containers = names_in(&logs.join("pods").join(folder)).ok()?;
    containers.pop().filter(|_| containers.is_empty())
}

fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const UID: &str = "0f4d2e6c-8f1b-4c1e-9f52-7a2b6f0d9c11";

    /// The id of a container.
    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn group(cgroup: u64, container: &str) -> CgroupName {
        CgroupName { id: cgroup, path: format!("/kubepods/burstable/pod{UID}/{container}") }
    }

    fn make_container(logs: &Path, name: &str, id: Option<&str>) {
        fs::create_dir_all(logs.join(format!("pods/shop_web-0_{UID}/{name}"))).unwrap();
        if let Some(id) = id {
            fs::create_dir_all(logs.join("containers")).unwrap();
            let target = format!("/var/log/pods/shop_web-0_{UID}/{name}/0.log");
            symlink(target, logs.join(format!("containers/web-0_shop_{name}-{id}.log"))).unwrap();
        }
    }

    /// Reported control groups with their pods, in order.
    fn resolved(pods: &mut Pods, now: Instant) -> Vec<String> {
        let text = |event| match event {
            KernelEvent::Pod(PodName { cgroup, pod }) => format!("{cgroup} {pod}"),
            other => format!("{other:?}"),
        };
        let mut all: Vec<String> = pods.resolve(now).into_iter().map(text).collect();
        all.sort();
        all
    }

    #[test]
    fn names_are_found_as_the_kubelet_makes_them_and_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut pods, start) = (Pods::below(folder.path()), Instant::now());
        pods.note(&group(1, &id('a')), start);
        pods.note(&CgroupName { id: 9, path: "/user.slice".to_owned() }, start);
        assert_eq!(resolved(&mut pods, start), Vec::<String>::new(), "there is no folder");
        make_container(folder.path(), "init", None);
        make_container(folder.path(), "nginx", None);
        assert_eq!(resolved(&mut pods, start + READ_INTERVAL), ["1 shop/web-0"], "no link yet");
        assert_eq!(resolved(&mut pods, start + 2 * READ_INTERVAL), Vec::<String>::new());
        make_container(folder.path(), "nginx", Some(&id('a')));
        assert_eq!(resolved(&mut pods, start + 3 * READ_INTERVAL), ["1 shop/web-0/nginx"]);
        assert!(pods.searched.is_empty());
        // The path of a group in use is reported again; its names are known without reading.
        fs::remove_dir_all(folder.path()).unwrap();
        pods.note(&group(1, &id('a')), start);
        assert_eq!(resolved(&mut pods, start + 3 * READ_INTERVAL), ["1 shop/web-0/nginx"]);
    }

    #[test]
    fn the_only_container_of_a_pod_needs_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let (mut pods, start) = (Pods::below(folder.path()), Instant::now());
        make_container(folder.path(), "nginx", None);
        pods.note(&group(1, &id('a')), start);
        assert_eq!(resolved(&mut pods, start), ["1 shop/web-0/nginx"]);
    }

    #[test]
    fn a_name_that_is_not_found_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let (mut pods, start) = (Pods::below(folder.path()), Instant::now());
        pods.note(&group(1, &id('a')), start);
        assert!(resolved(&mut pods, start + SEARCH_TIME).is_empty());
        assert!(pods.searched.is_empty());
        make_container(folder.path(), "nginx", None);
        assert!(resolved(&mut pods, start + 2 * SEARCH_TIME).is_empty(), "the search has ended");
    }

    #[test]
    fn no_more_groups_are_searched_than_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (mut pods, start) = (Pods::below(folder.path()), Instant::now());
        (0..20_000).for_each(|cgroup| pods.note(&group(cgroup, &id('a')), start));
        assert_eq!(pods.searched.len(), MAX_SEARCHED);
    }
}
