import { BlockList, isIPv4 } from 'node:net';

/** What is not reached over the public internet, of the registries of IANA for special addresses (RFC 6890). */
const special4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;

/** Of the global unicast addresses; what is outside of them is not public in any case. */
const special6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
] as const;

const refused = new BlockList();
for (const [net, prefix] of special4) refused.addSubnet(net, prefix, 'ipv4');
for (const [net, prefix] of special6) refused.addSubnet(net, prefix, 'ipv6');

const globalUnicast = new BlockList();
globalUnicast.addSubnet('2000::', 3, 'ipv6');

/**
 * Whether an address, as text, is one of the public internet. IPv6 addresses that hold one of IPv4 (mapped, 6to4, Teredo, NAT64) are not:
 * they may lead anywhere.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !refused.check(address, 'ipv4');
  return globalUnicast.check(address, 'ipv6') && !refused.check(address, 'ipv6');
}
