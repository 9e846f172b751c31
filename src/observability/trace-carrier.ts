import { type Context, propagation, ROOT_CONTEXT, type TextMapGetter } from '@opentelemetry/api';

/** Headers in the form of Node and MCP's `_meta`, or of fetch. */
export type HeaderCarrier = Headers | Readonly<Record<string, unknown>>;

const getter: TextMapGetter<HeaderCarrier> = {
  keys: (carrier) => (carrier instanceof Headers ? [...carrier.keys()] : Object.keys(carrier)),
  get(carrier, key) {
    if (carrier instanceof Headers) return carrier.get(key) ?? undefined;
    const value = carrier[key] ?? carrier[keyIgnoringCase(carrier, key)];
    const first: unknown = Array.isArray(value) ? value[0] : value;
    return typeof first === 'string' ? first : undefined;
  },
};

/**
 * Extracts the caller's trace from its headers: the `parentContext` of a turn. Without trace headers, with malformed
 * ones, or without a registered propagator, returns `base`, and the turn starts a new trace. Never throws.
 */
export function contextFromCarrier(carrier: HeaderCarrier, base: Context = ROOT_CONTEXT): Context {
  return propagation.extract(base, carrier, getter);
}

/** The headers with which the receiver continues this trace; empty without a registered propagator. */
export function carrierFromContext(context: Context): Record<string, string> {
  const carrier: Record<string, string> = {};
  propagation.inject(context, carrier);
  return carrier;
}

function keyIgnoringCase(carrier: Readonly<Record<string, unknown>>, key: string): string {
  const wanted = key.toLowerCase();
  return Object.keys(carrier).find((name) => name.toLowerCase() === wanted) ?? key;
}
