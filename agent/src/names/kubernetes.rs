// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the names that Kubernetes gives to control groups and logs.
//!
//! The kubelet's rules: the path of a control group contains the UID of the pod (drivers `systemd` and `cgroupfs`) and the id of the container;
//! the name of a pod's log folder contains its namespace, name and UID; the link to a container's log contains its name and id.

use mpwatch_model::host::names::Pod;

/// The pod and container in the path of a control group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodGroup {
    pub(crate) uid: String,
    /// Id of the container. `None`: the group belongs to the pod itself or to the monitor of its runtime.
    pub(crate) container: Option<String>,
}

/// Parses the path of a control group. `None`: it belongs to no pod.
///
/// * driver `systemd`: `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope`, `_` for `-` in UID
/// * driver `cgroupfs`: `/kubepods/burstable/podUID/ID`
/// * containerd with names of `systemd` and driver `cgroupfs`: `/.../kubepods-burstable-podUID.slice:cri-containerd:ID`
///
/// A container may add any path after these parts. [`is_kubelet_root`] checks the parts before them, because a user can create groups with
/// the same names below the user's own group.
pub(crate) fn pod_group(path: &str) -> Option<PodGroup> {
    let parts: Vec<&str> = path.split(['/', ':']).filter(|part| !part.is_empty()).collect();
    let start = parts.iter().position(|part| part.contains("kubepods"))?;
    let (root, mut parts) = (&parts[..start], parts[start..].iter().copied());
    let uid = parts.find_map(pod_uid).filter(|_| is_kubelet_root(root))?;
    Some(PodGroup { uid, container: parts.find_map(container_id) })
}

/// Whether the groups of the kubelet may be below the path `root`: the top group, or a group in it (`--cgroup-root`). There, only the user
/// root creates groups. If the node is itself a container (kind, minikube), the same holds below the group of that container.
fn is_kubelet_root(root: &[&str]) -> bool {
    match root {
        [] | [_] | ["system.slice", "containerd.service"] => true,
        ["docker" | "system.slice" | "machine.slice", node, rest @ ..] => {
            container_id(node).is_some() && rest.len() <= 1
        }
        _ => false,
    }
}

/// The UID in `podUID` or `kubepods-burstable-podUID.slice`.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = part.rsplit_once("pod")?;
    let uid = uid.replace('_', "-");
    (before.is_empty() || before.ends_with('-')).then_some(uid).filter(|uid| is_uid(uid))
}

/// Whether `text` is the UID of a pod: a UUID, or for a static pod the hash of its manifest.
fn is_uid(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes: Vec<usize> = text.match_indices('-').map(|(place, _)| place).collect();
    digits == 32 && digits + dashes.len() == text.len() && (dashes.is_empty() || dashes == [8, 13, 18, 23])
}

/// The id in `ID`, `RUNTIME-ID` or `RUNTIME-ID.scope`.
fn container_id(part: &str) -> Option<String> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let (runtime, id) = part.rsplit_once('-').unwrap_or_default();
    let id = if runtime.is_empty() { part } else { id };
    (is_container_id(id) && !runtime.ends_with("conmon")).then(|| id.to_owned())
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Reads the name of a folder below `/var/log/pods`: `NAMESPACE_NAME_UID`.
pub(crate) fn pod_folder(name: &str) -> Option<Pod> {
    let [namespace, name, uid] = fields(name)?.map(str::to_owned);
    is_uid(&uid).then_some(Pod { namespace, name, uid, container: None })
}

/// Reads the name of a link below `/var/log/containers`, `NAME_NAMESPACE_CONTAINER-ID.log`: id and name of the container. `None`: the kubelet
/// has cut the name, which file systems limit to 255 bytes.
pub(crate) fn container_log(name: &str) -> Option<(&str, &str)> {
    let (names, id) = name.strip_suffix(".log")?.rsplit_once('-')?;
    let [_, _, container] = fields(names)?;
    is_container_id(id).then_some((id, container))
}

/// Splits a name at its two underscores: the names that Kubernetes joins have none.
fn fields(text: &str) -> Option<[&str; 3]> {
    let mut parts = text.split('_').filter(|part| !part.is_empty());
    let fields = [parts.next()?, parts.next()?, parts.next()?];
    (text.matches('_').count() == 2).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0f4d2e6c-8f1b-4c1e-9f52-7a2b6f0d9c11";
    const SLICE: &str = "0f4d2e6c_8f1b_4c1e_9f52_7a2b6f0d9c11";
    const STATIC: &str = "5b1f3a0c9d2e4f6a8b7c0d1e2f3a4b5c";
    const ID: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// Paths of all drivers, runtimes and classes. `@U`, `@S`, `@M`: UID of a pod. `@I`: id of its container. `@C`: id of another container.
    const PATHS: [&str; 18] = [
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod@S.slice/cri-containerd-@I.scope",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod@S.slice/crio-@I.scope",
        "/kubepods.slice/kubepods-pod@S.slice/docker-@I.scope",
        "/kubepods.slice/kubepods-pod@S.slice/crio-@I.scope/container",
        "/kubepods.slice/kubepods-pod@M.slice/cri-containerd-@I.scope",
        "/kubepods.slice/kubepods-pod@S.slice/cri-containerd-@I.scope/system.slice/a.service",
        "/kubepods.slice/kubepods-pod@S.slice/crio-conmon-@C.scope",
        "/kubepods.slice/kubepods-pod@S.slice",
        "/kubepods/burstable/pod@U/@I",
        "/kubepods/besteffort/pod@U/crio-@I",
        "/kubepods/pod@U/@I/init",
        "/kubepods/pod@M",
        "/system.slice/containerd.service/kubepods-burstable-pod@S.slice:cri-containerd:@I",
        "/kubelet/kubepods/burstable/pod@U/@I",
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod@S.slice/cri-containerd-@I.scope",
        "/system.slice/docker-@C.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod@S.slice/crio-@I.scope",
        "/docker/@C/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod@S.slice/cri-containerd-@I.scope",
        "/.../kubepods-burstable-pod@S.slice/cri-containerd-@I.scope",
    ];

    #[test]
    fn the_path_of_a_control_group_has_the_pod_and_the_container() {
        for path in PATHS {
            let uid = if path.contains("@M") { STATIC } else { UID }.to_owned();
            let container = path.contains("@I").then(|| ID.to_owned());
            let placeholders = [("@U", UID), ("@S", SLICE), ("@M", STATIC), ("@I", ID), ("@C", ID)];
            let path = placeholders.iter().fold(path.to_owned(), |path, (name, id)| path.replace(name, id));
            assert_eq!(pod_group(&path), Some(PodGroup { uid, container }), "{path}");
        }
    }

    #[test]
    fn other_control_groups_belong_to_no_pod() {
        for path in [
            String::new(),
            "/".to_owned(),
            "/user.slice/user-1000.slice".to_owned(),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope"),
            "/kubepods.slice/kubepods-burstable.slice".to_owned(),
            format!("/kubepods/pod{}/{ID}", &UID[1..]),
            format!("/kubepods/tripod{UID}/{ID}"),
            format!("/user.slice/pod{UID}/{ID}"),
            format!("/kubepods/pod{}/{ID}", UID.replace('-', "+")),
            format!("/user.slice/evil/kubepods/pod{UID}/{ID}"),
            format!("/user.slice/user-1000.slice/user@1000.service/kubepods.slice/kubepods-pod{SLICE}.slice"),
            format!("/system.slice/a.service/kubepods/pod{UID}/{ID}"),
        ] {
            assert_eq!(pod_group(&path), None, "{path}");
        }
    }

    #[test]
    fn folders_and_links_of_logs_have_names() {
        let folder = |namespace: &str, name: &str, uid: &str| {
            let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
            Some(Pod { namespace, name, uid, container: None })
        };
        assert_eq!(
            pod_folder(&format!("kube-system_etcd-node1_{STATIC}")),
            folder("kube-system", "etcd-node1", STATIC)
        );
        assert_eq!(pod_folder(&format!("shop_web-0.a_{UID}")), folder("shop", "web-0.a", UID));
        for other in [
            UID.to_owned(),
            format!("shop_{UID}"),
            format!("a_b_c_{UID}"),
            format!("__{UID}"),
            "a_b_c".to_owned(),
        ] {
            assert_eq!(pod_folder(&other), None, "{other}");
        }
        assert_eq!(container_log(&format!("web-0_shop_side-car-{ID}.log")), Some((ID, "side-car")));
        for other in [
            format!("web-0_shop_nginx-{ID}"),
            format!("web-0_shop_nginx-{}.log", &ID[1..]),
            format!("{ID}.log"),
            format!("nginx-{ID}.log"),
        ] {
            assert_eq!(container_log(&other), None, "{other}");
        }
    }
}
