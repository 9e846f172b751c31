import type { CryptoKey, JSONWebKeySet, KeyObject } from 'jose';
import { AgentLoopError, invalidConfig, shownValue } from '../../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../../options/option-rules.ts';
import { jose, keySource, publicKeyAlgorithms } from '../../signed-tokens.ts';
import { failure, type RemoteName } from './remote-failure.ts';

/** The public keys of who signs the card: one of `jwksUrl`, `jwks` and `key`. Needs the package `jose`. */
export interface VerifyCardOptions {
  /** Where they are published, at an https address or the loopback. Fetched when needed, kept for ten minutes. */
  readonly jwksUrl?: string | undefined;
  /** The keys themselves. A signature that names its key (`kid`) is checked with the key of that name. */
  readonly jwks?: JSONWebKeySet | undefined;
  /** One public key. */
  readonly key?: CryptoKey | KeyObject | undefined;
  /** Whether a card without signatures is refused. Default true. With false, whoever can change a card can also take its signatures off. */
  readonly required?: boolean | undefined;
}

const optionNames: OptionNames<VerifyCardOptions> = { jwksUrl: true, jwks: true, key: true, required: true };
const owner = 'verifyCard of remoteAgent';

/** The reason of the error of a card that is refused. */
export const cardRefused = 'remote_card_signature';

/** How many signatures of one card are looked at. */
const mostSignatures = 20;

/** Rejects where a card, as its JSON came, is not signed as it has to be: `PROVIDER_PROTOCOL`; `PROVIDER_UNREACHABLE` without the keys. */
export type CardCheck = (name: RemoteName, card: unknown) => Promise<void>;

/**
 * Checks the signatures of cards (A2A 1.0, section 8.4): a JWS over the card's canonical JSON (RFC 8785). One that is valid is enough. Secrets
 * (HMAC) are not accepted, and no address in a signature (`jku`) is fetched. Throws `INVALID_CONFIG`.
 */
export function cardCheck(options: VerifyCardOptions): CardCheck {
  assertKnownOptions(owner, options, optionNames);
  const { required = true, ...source } = options;
  if (typeof required !== 'boolean')
    throw invalidConfig(`required of ${owner} is ${shownValue(required)}`, 'write true or false');
  if (source.key !== undefined && !['public', 'private'].includes(Object(source.key).type))
    throw invalidConfig(`key of ${owner} is not a public key`, 'give a KeyObject or a CryptoKey, or the keys as jwks');
  const keysOf = keySource(owner, source);
  let loading: ReturnType<typeof keysOf> | undefined;
  return async (name, card) => {
    const given: unknown = Object(card).signatures;
    const signatures: readonly unknown[] = Array.isArray(given) ? given : [];
    if (signatures.length === 0) {
      if (!required) return;
      throw refused(
        name,
        'has a card that is not signed: its operator has to sign it, or set verifyCard.required to false',
      );
    }
    if (!isCurrent(card))
      throw refused(name, 'has a card of A2A 0.3, whose signature is not checked: it needs one of 1.0');
    const [{ flattenedVerify, base64url, errors }, payload] = await Promise.all([jose(owner), canonical(name, card)]);
    loading ??= keysOf();
    const keys = await loading;
    for (const { protected: head, signature } of signatures.slice(0, mostSignatures).map(Object)) {
      const signed = { protected: String(head), signature: String(signature), payload: base64url.encode(payload) };
      try {
        const checks = { algorithms: publicKeyAlgorithms };
        await (typeof keys === 'function'
          ? flattenedVerify(signed, keys, checks)
          : flattenedVerify(signed, keys, checks));
        return;
      } catch (thrown) {
        const isOfKeys = ['ERR_JOSE_GENERIC', errors.JWKSTimeout.code, errors.JWKSInvalid.code];
        if (thrown instanceof errors.JOSEError && !isOfKeys.includes(thrown.code)) continue;
        // A key that does not fit the algorithm that the signature names.
        if (thrown instanceof TypeError && typeof keys !== 'function') continue;
        if (AgentLoopError.isInstance(thrown)) throw thrown;
        throw failure(name, 'PROVIDER_UNREACHABLE', 'has a card whose keys cannot be had: check verifyCard.jwksUrl');
      }
    }
    throw refused(name, 'has a card that no key of verifyCard has signed: it was changed, or signed by somebody else');
  };
}

function refused(name: RemoteName, what: string): AgentLoopError {
  return failure(name, 'PROVIDER_PROTOCOL', what, { reason: cardRefused });
}

/** Of 1.0: the package reads any other as one of 0.3, by members that no signature covers. */
function isCurrent(card: unknown): boolean {
  const interfaces: unknown = Object(card).supportedInterfaces;
  return Array.isArray(interfaces) && interfaces.length > 0;
}

async function canonical(name: RemoteName, card: unknown): Promise<string> {
  const { canonicalizeAgentCard } = await import('@a2a-js/sdk');
  const { signatures: _, ...rest } = Object(card);
  try {
    // It reads the JSON of a card, whatever its type says.
    return canonicalizeAgentCard(rest);
  } catch {
    throw refused(name, 'has a card that has no canonical form');
  }
}
