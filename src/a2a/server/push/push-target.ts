import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { promisify } from 'node:util';
import { AgentLoopError } from '../../../core/contracts/index.ts';
import { isPublicAddress } from '../../../public-address.ts';

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
