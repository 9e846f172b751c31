import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  cacheResponses,
  circuitBreaker,
  composePolicies,
  fallback,
  hedge,
  InMemoryCacheStore,
  type LLMProvider,
  limitConcurrency,
  type ProviderPolicy,
  rateLimit,
  recordResponses,
  replayResponses,
  retry,
  timeout,
} from 'millrace';
import { fakeClock, scriptedLLM } from 'millrace/testing';
import { NEVER } from 'rxjs';
import { hi, streamOf } from './scripted-calls.ts';

const store = new InMemoryCacheStore();
const plain: LLMProvider = { call: async () => ({ message: { role: 'assistant', content: 'plain' } }) };

/** All of them in the order that makes sense, the outermost first. */
const ordered = (): readonly ProviderPolicy[] => [
  timeout({ totalMs: 60_000 }),
  cacheResponses({ store: new InMemoryCacheStore(), namespace: 'n' }),
  fallback({ to: plain }),
  retry(),
  hedge({ delayMs: 1_000 }),
  circuitBreaker(),
  rateLimit({ requestsPerMinute: 10 }),
  limitConcurrency({ max: 2 }),
  timeout({ firstChunkMs: 1_000 }),
];

const wrong: readonly (readonly [string, readonly ProviderPolicy[], RegExp])[] = [
  [
    'chunk limits around retry',
    [timeout({ firstChunkMs: 1 }), retry()],
    /timeout stands outside retry: firstChunkMs and .*put retry outside timeout/,
  ],
  [
    'chunk limits around a queue',
    [timeout({ betweenChunksMs: 1 }), limitConcurrency({ max: 1 })],
    /timeout stands outside limitConcurrency/,
  ],
  [
    'a rate limit around retry',
    [rateLimit({ requestsPerMinute: 1 }), retry()],
    /all requests that retry makes would count as one/,
  ],
  [
    'places around a rate limit',
    [limitConcurrency({ max: 1 }), rateLimit({ requestsPerMinute: 1 })],
    /keep its place while rateLimit sleeps/,
  ],
  ['places around retry', [limitConcurrency({ max: 1 }), retry()], /keep its place while retry sleeps/],
  [
    'a cache behind a rate limit',
    [rateLimit({ tokensPerMinute: 1 }), cacheResponses({ store, namespace: 'n' })],
    /would use up the limit/,
  ],
  [
    'a cache behind a circuit',
    [circuitBreaker(), cacheResponses({ store, namespace: 'n' })],
    /signs that the model is well/,
  ],
  ['retry twice', [retry(), fallback({ to: plain }), retry()], /numbers of tries would multiply; leave one retry out/],
  [
    'anything inside of a replay',
    [replayResponses({ path: 'x' }), timeout({ totalMs: 1 })],
    /timeout inside it would never act/,
  ],
];

describe('composePolicies', () => {
  it('puts the first outermost, and asks nothing of policies of one’s own', async () => {
    const order: string[] = [];
    const own =
      (name: string): ProviderPolicy =>
      (provider) => ({
        ...provider,
        call: (params) => {
          order.push(name);
          return provider.call(params);
        },
      });
    const provider = composePolicies(own('outer'), own('inner'))(plain);
    expect((await provider.call(hi)).message.content).toBe('plain');
    expect(order).toEqual(['outer', 'inner']);
    expect(composePolicies()(plain)).toBe(plain);
  });

  it('takes every selection of the policies in their order', async () => {
    await fc.assert(
      fc.asyncProperty(fc.subarray([...ordered().keys()]), async (places) => {
        const all = ordered();
        const policies = places.flatMap((place) => all[place] ?? []);
        const provider = composePolicies(...policies)(scriptedLLM([{ text: 'Hello' }]));
        expect((await provider.call(hi)).message.content).toBe('Hello');
      }),
      { numRuns: 60 },
    );
  });

  it.each(wrong)(
    'refuses %s, when it is composed, nested by hand, and composed of compositions',
    (_, policies, message) => {
      const refused = expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) });
      expect(() => composePolicies(...policies)).toThrow(refused);
      expect(() => policies.reduceRight((provider, policy) => policy(provider), plain)).toThrow(refused);
      const [first = retry(), ...others] = policies;
      expect(() => composePolicies(composePolicies(first), composePolicies(...others))).toThrow(refused);
    },
  );

  it('looks into the providers that fallback and hedge turn to', () => {
    const other = retry()(plain);
    expect(() => composePolicies(retry(), hedge({ delayMs: 1, to: other }))).not.toThrow();
    expect(() => hedge({ delayMs: 1, to: hedge({ delayMs: 1 })(plain) })).toThrow(/numbers of requests would multiply/);
  });

  it('listens once to the signal of a call, however many policies it passes: Node warns of more than ten', async () => {
    const { signal } = new AbortController();
    const many = composePolicies(...Array.from({ length: 12 }, () => timeout({ totalMs: 60_000, clock: fakeClock() })));
    const silent: LLMProvider = { ...plain, stream: () => NEVER };
    const call = streamOf(many(silent), { ...hi, signal }).subscribe();
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    call.unsubscribe();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    const asked = many(plain).call({ ...hi, signal });
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    expect((await asked).message.content).toBe('plain');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('refuses what is no policy and no provider', () => {
    const notAPolicy: unknown = plain;
    expect(() => Reflect.apply(composePolicies, undefined, [retry(), notAPolicy])).toThrow(
      /argument 2 is an object; give policies/,
    );
    expect(() => Reflect.apply(retry(), undefined, [undefined])).toThrow(
      /retry goes around an LLMProvider, .* not undefined/,
    );
  });
});

describe('the options of policies', () => {
  const bad: readonly (readonly [(options: never) => unknown, object, RegExp])[] = [
    [retry, { maxRetries: -1 }, /retry: maxRetries must be a whole number of at least 0/],
    [retry, { maxRetries: 1.5 }, /maxRetries must .*, not 1\.5/],
    [retry, { initialDelayMs: Number.NaN }, /initialDelayMs must be milliseconds from 0/],
    [retry, { maxDelayMs: '60' }, /maxDelayMs must .*, not "60"/],
    [retry, { statusCodes: [200] }, /statusCodes must be a list of HTTP statuses from 400 to 599/],
    [retry, { random: 1 }, /random must be a function/],
    [retry, { clock: {} }, /clock must be a clock/],
    [retry, { retries: 3 }, /retry has no option "retries"; the options are: maxRetries,/],
    [fallback, {}, /fallback: to is missing; give the provider/],
    [fallback, { to: [] }, /fallback: to is an empty list/],
    [fallback, { to: [plain, 1] }, /fallback goes around an LLMProvider, .* not 1/],
    [fallback, { to: plain, on: ['503'] }, /on must be a list of error codes/],
    [hedge, {}, /hedge: delayMs is missing/],
    [hedge, { delayMs: Number.POSITIVE_INFINITY }, /delayMs must .*, not Infinity/],
    [timeout, {}, /timeout: no limit is given; set firstChunkMs/],
    [timeout, { totalMs: 0 }, /totalMs must be milliseconds from 1/],
    [limitConcurrency, {}, /limitConcurrency: max is missing/],
    [limitConcurrency, { max: 0 }, /max must be a whole number of at least 1/],
    [rateLimit, {}, /rateLimit: no limit is given/],
    [rateLimit, { requestsPerMinute: 0.5 }, /requestsPerMinute must .*, not 0\.5/],
    [circuitBreaker, { failures: 0 }, /failures must .*, not 0/],
    [circuitBreaker, { openMs: -5 }, /openMs must .*, not -5/],
    [cacheResponses, {}, /cacheResponses: store is missing/],
    [cacheResponses, { store: new Map(), ttlMs: 0 }, /ttlMs must .*, not 0/],
    [cacheResponses, { store: {} }, /store must be a CacheStore/],
    [recordResponses, { path: '' }, /path must .*, not ""/],
    [recordResponses, { path: 'x', redact: true }, /redact must be a function/],
    [replayResponses, {}, /replayResponses: path is missing/],
  ];

  it.each(bad)('%p with %j is refused', (policy, options, message) => {
    expect(() => Reflect.apply(policy, undefined, [options])).toThrow(
      expect.objectContaining({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) }),
    );
  });
});
