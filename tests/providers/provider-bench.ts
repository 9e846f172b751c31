import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, expect } from '@jest/globals';
import type { AgentLoopError } from 'millrace';
import { LiteLLMProvider, type LiteLLMProviderOptions } from 'millrace/litellm';
import { type FakeClock, fakeClock } from 'millrace/testing';
import { lastValueFrom } from 'rxjs';
import { codedError } from './provider-error.ts';
import { type Exchange, type RawServer, startRawServer } from './raw-server.ts';

export const apiKey = 'sk-very+"secret"/1234567890==';
export const params = { messages: [{ role: 'user' as const, content: 'Hi' }] };

export const byCall = (from: LiteLLMProvider): Promise<unknown> => from.call(params);
export const byStream = (from: LiteLLMProvider): Promise<unknown> => lastValueFrom(from.stream(params));
export const ways = [
  ['call', byCall],
  ['stream', byStream],
] as const;

/** What providers are tried on: made anew for each test. */
export interface ProviderBench {
  readonly server: RawServer;
  /** Of the providers. */
  readonly clock: FakeClock;
  /** A provider that asks the bench's server, with the key. */
  provider(options?: Partial<LiteLLMProviderOptions>): LiteLLMProvider;
  /** What both ways fail with when the server answers like this; they have to agree. */
  failure(answer: (exchange: Exchange) => void, options?: Partial<LiteLLMProviderOptions>): Promise<AgentLoopError>;
  /** Sends bytes. Resolves when the provider has taken them: it reads the clock for each piece of a body. */
  send(exchange: Exchange, text: string): Promise<void>;
}

/** Registers what makes the parts before each test, and closes them behind it: no timer may be left. */
export function providerBench(): ProviderBench {
  let server: RawServer;
  let clock: FakeClock;
  const readings = new EventEmitter();

  beforeEach(async () => {
    server = await startRawServer();
    clock = fakeClock({ startAt: Date.UTC(2026, 0, 1) });
  });

  afterEach(async () => {
    expect(clock.pending).toBe(0);
    await server.close();
  });

  function provider(options: Partial<LiteLLMProviderOptions> = {}): LiteLLMProvider {
    const now = (): number => {
      readings.emit('now');
      return clock.now();
    };
    const own = { ...clock, now };
    return new LiteLLMProvider({ baseUrl: server.baseUrl, model: 'gpt-x', apiKey, clock: own, ...options });
  }

  return {
    get server() {
      return server;
    },
    get clock() {
      return clock;
    },
    provider,
    async failure(answer, options) {
      server.answer(answer);
      const called = await codedError(byCall(provider(options)));
      const streamed = await codedError(byStream(provider(options)));
      expect(summary(streamed)).toEqual(summary(called));
      return called;
    },
    async send({ response }, text) {
      const taken = once(readings, 'now');
      response.write(text);
      await taken;
    },
  };
}

function summary({ code, message, retryable, retryAfterMs, status }: AgentLoopError) {
  return { code, message, retryable, retryAfterMs, status };
}
