import { BlockList, isIP } from 'node:net';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether only this machine reaches an address, or a name that stands for one. */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  if (isIP(bare) === 0) return /^(localhost|.*\.localhost)\.?$/.test(bare);
  return loopback.check(bare, isIP(bare) === 6 ? 'ipv6' : 'ipv4');
}

/** The host of a `Host` header, without its port. */
export function hostNameIn(header: string | undefined): string {
  return /^(\[[^\]]*\]|[^:]*)(:\d*)?$/.exec(header ?? '')?.[1] ?? '';
}
