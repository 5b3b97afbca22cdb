//! Members of a cluster, as a node reports them in its log.
//!
//! `nodetool status` reports the same, but starts a JVM for each call. Tests that wait for nodes
//! would spend more time on these calls than the nodes need for starting.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Member (node) of a cluster, as another node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// IP address of the member.
    pub ip: IpAddr,
    /// True if the observing node regards the member as alive.
    pub up: bool,
    /// True if the member has the state NORMAL: it is not joining, leaving or moving.
    pub normal: bool,
}

/// Part of the first message that a node logs when it starts.
const START: &str = "Cassandra version: ";
const ALIVE: &str = " is now UP";
const DEAD: &str = " is now DOWN";
/// Part of the message that a member has the state NORMAL, which is logged at level DEBUG.
const NORMAL: &str = " state NORMAL";

/// Returns the members that the node `own` has logged since its last start, including itself.
pub(super) fn members(log: &str, own: IpAddr) -> Vec<Member> {
    let since_start = log.rfind(START).map_or("", |at| &log[at..]);
    let mut members = BTreeMap::new();
    for line in since_start.lines() {
        let Some((ip, event)) = event(line) else { continue };
        let member = members.entry(ip).or_insert(Member {
            ip,
            up: ip == own,
            normal: false,
        });
        match event {
            ALIVE => member.up = true,
            DEAD => member.up = false,
            _ => member.normal = true,
        }
    }
    members.into_values().collect()
}

/// Splits a log line such as `… InetAddress /127.0.0.2:7000 is now UP` into address and event.
fn event(line: &str) -> Option<(IpAddr, &'static str)> {
    let events = [ALIVE, DEAD, NORMAL];
    let (before, event) = events
        .into_iter()
        .find_map(|event| Some((line.split_once(event)?.0, event)))?;
    let (_, address) = before.rsplit_once('/')?;
    let (ip, _port) = address.rsplit_once(':')?;
    Some((ip.parse().ok()?, event))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LOG: &str = "\
INFO  2026-11-27 08:04:58,912 [GossipStage:1] Gossiper - InetAddress /127.0.4.3:7000 is now DOWN
INFO  2026-11-27 08:12:17,590 [main] StorageService - Cassandra version: 5.0.8
INFO  2026-11-27 08:12:20,288 [main] StorageService - Node /127.0.4.2:7000 state NORMAL, token [-3074457345618258603]
INFO  2026-11-27 08:12:20,300 [GossipStage:1] StorageService - Node /127.0.4.1:7000 state NORMAL, token [-9223372036854775808]
INFO  2026-11-27 08:12:20,317 [GossipStage:1] Gossiper - InetAddress /127.0.4.1:7000 is now UP
INFO  2026-11-27 08:12:20,400 [GossipStage:1] Gossiper - InetAddress /127.0.4.3:7000 is now UP
INFO  2026-11-27 08:12:20,656 [main] PipelineConfigurator - Starting listening for CQL clients on /127.0.4.2:9042
";

    fn ip(last: u8) -> IpAddr {
        Ipv4Addr::new(127, 0, 4, last).into()
    }

    fn member(last: u8, up: bool, normal: bool) -> Member {
        let ip = ip(last);
        Member { ip, up, normal }
    }

    #[test]
    fn follows_the_log_since_the_last_start() {
        let seen = [
            member(1, true, true),
            member(2, true, true),
            member(3, true, false),
        ];
        assert_eq!(members(LOG, ip(2)), seen);
        let later =
            format!("{LOG}INFO  [GossipStage:1] Gossiper - InetAddress /127.0.4.1:7000 is now DOWN\n");
        assert_eq!(members(&later, ip(2))[0], member(1, false, true));
    }

    #[test]
    fn names_nobody_before_the_start() {
        assert_eq!(members("", ip(1)), []);
        assert_eq!(
            members("INFO  [main] StorageService - Cassandra version: 5.0.8\n", ip(1)),
            []
        );
    }
}
