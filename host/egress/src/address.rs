//! Decides which addresses a request may connect to. Called by `target` for literal addresses and by `resolve` for the
//! addresses of names.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::EgressError;

/// The addresses that a request may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressScope {
    /// Public addresses: for every pattern with a `*`, and for nearly every name.
    Public,
    /// This machine: `localhost` and loopback addresses that a grant names exactly.
    Loopback,
    /// One private address that a grant names exactly.
    Private,
    /// This machine and its network: for plain HTTP to an origin with `allow_private`.
    Near,
    /// This machine, its network and public addresses: for HTTPS to an origin with `allow_private`.
    NearOrPublic,
}

impl AddressScope {
    /// Whether a request may connect to `address`.
    pub(crate) fn covers(self, address: IpAddr) -> bool {
        let class = Class::of(address);
        match self {
            Self::Public => class == Class::Public,
            Self::Loopback => class == Class::Loopback,
            Self::Private => class == Class::Private,
            Self::Near => matches!(class, Class::Loopback | Class::Private),
            Self::NearOrPublic => matches!(class, Class::Loopback | Class::Private | Class::Public),
        }
    }

    /// Checks that a request may connect to `address`. `host` is the same address, or a name that resolves to it.
    ///
    /// # Errors
    /// [`EgressError::Address`], with advice about how to allow it.
    pub(crate) fn check(self, host: &str, address: IpAddr) -> Result<(), EgressError> {
        if self.covers(address) {
            return Ok(());
        }
        let class = Class::of(address);
        let next = match (self, class) {
            (_, Class::Never(_)) => "no grant can allow it",
            (Self::Public, _) => {
                "a loopback or private IPv4 address, or localhost, needs a grant that names it exactly"
            }
            (Self::Loopback, _) => "this name must resolve to this machine; check the system's resolver",
            (Self::Private, _) => "the grant names a private address",
            (Self::Near | Self::NearOrPublic, _) => {
                "plain http is only allowed for private and loopback addresses; \
                use https"
            }
        };
        Err(EgressError::Address { host: host.to_owned(), address, what: class.to_string(), next })
    }
}

/// The class of an address, by which it is allowed or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Public,
    Loopback,
    Private,
    /// Never a valid destination. The string describes the address in error messages.
    Never(&'static str),
}

impl Class {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// Follows IANA's registry of special-purpose addresses, and adds the metadata addresses of clouds.
    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [169, 254, ..] => Self::Never("a link-local address, where clouds serve their metadata"),
            [100, 100, 100, 200] | [168, 63, 129, 16] => Self::Never("a metadata address of a cloud"),
            [0, ..] => Self::Never("an unspecified address"),
            [127, ..] => Self::Loopback,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Self::Private,
            [192, 0, 0, _] => Self::Never("an address reserved for protocols"),
            [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Self::Never("an address for documentation"),
            [192, 88, 99, _] => Self::Never("a translated address"),
            [198, 18..=19, ..] => Self::Never("an address for benchmarks"),
            [224..=239, ..] => Self::Never("a multicast address"),
            [240..=255, ..] => Self::Never("a reserved address"),
            _ => Self::Public,
        }
    }

    /// Only 2000::/3 is assigned as global unicast. Everything else is refused; a list of
    /// forbidden ranges could have gaps.
    fn of_v6(address: Ipv6Addr) -> Self {
        // Sockets represent IPv4 addresses in ::ffff:0:0/96, so the embedded address decides.
        if let Some(v4) = address.to_ipv4_mapped() {
            return Self::of_v4(v4);
        }
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Never("an unspecified address"),
            // A translator elsewhere (NAT64, 6to4) decides where packets to these addresses go.
            [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, ..] | [0x2002, ..] => Self::Never("a translated address"),
            // Amazon's metadata address lies within the private range.
            [0xfd00, 0x0ec2, ..] => Self::Never("a metadata address of a cloud"),
            [0xfc00..=0xfdff, ..] => Self::Private,
            [0xfe80..=0xfebf, ..] => Self::Never("a link-local address"),
            [0xfec0..=0xfeff, ..] => Self::Never("a site-local address"),
            [0xff00..=0xffff, ..] => Self::Never("a multicast address"),
            // 2001::/23, which includes Teredo, ORCHID and benchmarking addresses.
            [0x2001, 0..=0x1ff, ..] => Self::Never("an address reserved for protocols"),
            [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Self::Never("an address for documentation"),
            [0x2000..=0x3fff, ..] => Self::Public,
            _ => Self::Never("a reserved address"),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Never(what) => what,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn address_ranges_are_classified_at_their_edges() {
        use Class::{Loopback, Private, Public};
        for (class, addresses) in [
            (Some(Public), "1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0"),
            (Some(Public), "169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0"),
            (Some(Public), "192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255"),
            (Some(Public), "198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 8.8.8.8"),
            (
                Some(Public),
                "168.63.129.15 2000:: 2001:200:: 2001:db7:: 2001:db9:: 2003:: 3ffe:: 3fff:1000:: 2606:4700::1111",
            ),
            (Some(Public), "::ffff:8.8.8.8"),
            (Some(Loopback), "127.0.0.0 127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1"),
            (Some(Private), "10.0.0.0 10.255.255.255 172.16.0.0 172.31.255.255 192.168.0.0 192.168.255.255 100.64.0.0"),
            (Some(Private), "100.127.255.255 100.100.100.199 fc00:: fdff:ffff:: ::ffff:192.168.1.1"),
            (None, "0.0.0.0 0.255.255.255 169.254.0.0 169.254.169.254 169.254.255.255 192.0.0.0 192.0.0.192"),
            (None, "192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.0 192.88.99.255 198.18.0.0 198.19.255.255"),
            (None, "198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.0 239.255.255.255 240.0.0.0"),
            (None, "255.255.255.255 100.100.100.200 168.63.129.16"),
            (None, ":: ::2 ::127.0.0.1 ::8.8.8.8 ::ffff:0:1.2.3.4 ::ffff:169.254.169.254 ::ffff:0.0.0.0 1::"),
            (None, "64:ff9b::8.8.8.8 64:ff9b::10.0.0.1 64:ff9b:1::1 100:: 100:0:0:1:: 1fff:ffff:: 2001:: 2001:0:1::"),
            (None, "2001:2::1 2001:10::1 2001:20::1 2001:1ff:: 2001:db8:: 2001:db8:ffff:: 2002:: 2002:7f00:1::"),
            (None, "3fff:: 3fff:fff:: 4000:: 5f00:: fbff:: fe00:: fe80:: fe80::1 febf:: fec0:: feff:: ff00:: ff02::1"),
            (None, "fd00:ec2::254 ffff::"),
        ] {
            for address in addresses.split(' ') {
                let found = Class::of(address.parse().unwrap());
                match class {
                    Some(class) => assert_eq!(found, class, "{address}"),
                    None => assert!(matches!(found, Class::Never(_)), "{address} is {found:?}"),
                }
            }
        }
    }

    proptest! {
        #[test]
        fn other_forms_of_an_address_have_no_wider_scope(v4: u32) {
            let v4 = Ipv4Addr::from(v4);
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            prop_assert_eq!(Class::of(v4.to_ipv6_mapped().into()), Class::of(v4.into()));
            for other in [
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, 1, 2, 0, 0, !high, !low),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high | 1, low),
            ] {
                for reach in [AddressScope::Public, AddressScope::Loopback, AddressScope::Private, AddressScope::Near, AddressScope::NearOrPublic] {
                    prop_assert!(!reach.covers(other.into()), "{} by {:?}", other, reach);
                }
            }
        }

        #[test]
        fn address_has_at_most_one_scope(bits: u128, v4: u32) {
            for address in [IpAddr::from(Ipv6Addr::from(bits)), IpAddr::from(Ipv4Addr::from(v4))] {
                let reaches = [AddressScope::Public, AddressScope::Loopback, AddressScope::Private];
                let within = reaches.iter().filter(|reach| reach.covers(address)).count();
                prop_assert_eq!(within, usize::from(!matches!(Class::of(address), Class::Never(_))));
                // The two wide scopes are exactly the unions of the narrow ones.
                let near = AddressScope::Loopback.covers(address) || AddressScope::Private.covers(address);
                prop_assert_eq!(AddressScope::Near.covers(address), near);
                prop_assert_eq!(AddressScope::NearOrPublic.covers(address), near || AddressScope::Public.covers(address));
            }
        }
    }
}
