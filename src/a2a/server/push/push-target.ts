import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net';
import { promisify } from 'node:util';
import { AgentLoopError } from '../../../core/contracts/index.ts';

/** Which targets may be notified. */
export interface TargetRules {
  /** Lets targets be on private and loopback addresses. Default false. */
  readonly allowPrivateTargets?: boolean | undefined;
  /** Lets targets be reached over plain http. Default false. */
  readonly allowHttp?: boolean | undefined;
}

const resolve = promisify(lookup);

/**
 * The address of a target that may be asked. Errors: `INVALID_INPUT`, with a sentence for whoever named it: not an address, not https,
 * with a password, or one whose host is, or leads to, a private address.
 */
export async function checkedTarget(text: string, rules: TargetRules): Promise<URL> {
  const url = targetUrl(text, rules);
  if (rules.allowPrivateTargets === true) return url;
  const addresses = isIP(hostOf(url)) ? [] : await resolve(hostOf(url), { all: true }).catch(() => []);
  if (!isIP(hostOf(url)) && addresses.length === 0) throw refusedTarget('its host cannot be found');
  if (!addresses.every(({ address }) => isPublicAddress(address))) throw privateTarget();
  return url;
}

/** The checks that need no DNS lookup. Errors: `INVALID_INPUT`. */
export function targetUrl(text: string, { allowHttp = false, allowPrivateTargets = false }: TargetRules): URL {
  if (text.length > 2_048 || !URL.canParse(text)) throw refusedTarget('it is not an absolute address');
  const url = new URL(text);
  if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:')) throw refusedTarget('it has to be https');
  if (url.username !== '' || url.password !== '') throw refusedTarget('it has credentials; use authentication instead');
  const host = hostOf(url);
  const isLocal = isIP(host) !== 0 ? !isPublicAddress(host) : /^(localhost|.*\.localhost)\.?$/.test(host);
  if (isLocal && !allowPrivateTargets) throw privateTarget();
  return url;
}

/**
 * Looks a name up for a connection, and fails where it leads to an address that is not allowed: what is checked is what is connected
 * to, whatever the name led to before.
 */
export function checkedLookup({ allowPrivateTargets = false }: TargetRules): LookupFunction {
  return (hostname, options, callback) => {
    const all: LookupOptions = { ...options, all: true };
    lookup(hostname, all, (error, found) => {
      const addresses: readonly LookupAddress[] = Array.isArray(found) ? found : [];
      const [first] = addresses;
      if (error || first === undefined) return callback(error ?? refusedTarget('its host cannot be found'), '');
      if (!allowPrivateTargets && !addresses.every(({ address }) => isPublicAddress(address))) {
        return callback(privateTarget(), '');
      }
      if (options.all === true) callback(null, [...addresses]);
      else callback(null, first.address, first.family);
    });
  };
}

/** Without the brackets of IPv6. */
function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

function privateTarget(): AgentLoopError {
  return refusedTarget('its host is not on the public internet');
}

function refusedTarget(why: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `The url of a push notification cannot be used: ${why}.`);
}

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
