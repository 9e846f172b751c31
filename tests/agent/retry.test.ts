import { createOpenAI } from '@ai-sdk/openai';
import { afterEach, describe, expect, it } from '@jest/globals';
import { AgentLoopError, agent, agentTools, type LLMProvider, retry } from 'millrace';
import { AISDKProvider } from 'millrace/ai-sdk';
import { LiteLLMProvider } from 'millrace/litellm';
import { type ModelServer, type ScriptStep, startModelServer } from 'millrace/testing';
import type { AgentSettings } from 'millrace/types';
import { ofKind, watch } from '../core/watch-events.ts';
import { agentBench, passing } from './agent-bench.ts';

const servers: ModelServer[] = [];

// Before the bench looks for what is left open.
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.assertDone();
    await server.close();
  }
});

const on = agentBench();
const busy = (retryAfter?: number): ScriptStep => ({
  status: 503,
  ...(retryAfter !== undefined && { headers: { 'retry-after': String(retryAfter) } }),
});
const hello: ScriptStep = { text: 'Hello.' };
const down = new AgentLoopError('PROVIDER_SERVER', 'The model is busy.', { retryable: true });

async function serving(script: readonly ScriptStep[]): Promise<ModelServer> {
  const server = await startModelServer({ script });
  servers.push(server);
  return server;
}

const overLiteLLM = ({ baseUrl }: ModelServer): LLMProvider => new LiteLLMProvider({ baseUrl, model: 'demo' });
const overAiSdk = ({ baseUrl }: ModelServer): LLMProvider =>
  new AISDKProvider({ model: createOpenAI({ apiKey: 'k', baseURL: baseUrl }).chat('demo') });

const asking = (provider: LLMProvider, options: Partial<AgentSettings> = {}) =>
  on.agent([], { provider, retry: { initialDelayMs: 1, clock: on.bench.clock }, ...options });

describe('the model calls of an agent', () => {
  it('U-07 are made again by default: one 503 does not end a turn', async () => {
    const server = await serving([busy(), hello]);
    const ada = on.agent([], { provider: overLiteLLM(server) });
    const turn = ada.startTurn('Hi');
    const reader = watch(turn);
    expect((await passing(on.bench.clock, turn.result())).text).toBe('Hello.');
    expect(ofKind(reader.events, 'internal:llm-attempt-discarded')).toMatchObject([
      { iteration: 1, attempt: 1, reason: 'PROVIDER_SERVER' },
    ]);
    const calls = on.bench.spans.spans().filter(({ name }) => name === 'llm.call');
    expect(calls.map(({ status }) => status.code)).toEqual([2, 0]);
  });

  it.each([
    ['openai', overLiteLLM],
    ['ai-sdk', overAiSdk],
  ])('U-07 are made five times in all, whatever the package of the vendor (%s) would do', async (_, over) => {
    const server = await serving(Array.from({ length: 5 }, () => busy()));
    const failing = on.agent([], { provider: over(server) }).run('Hi');
    await expect(passing(on.bench.clock, failing)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    expect(server.received).toBe(5);
  });

  it('U-07 wait as long as the server says', async () => {
    const server = await serving([busy(7), hello]);
    const { clock } = on.bench;
    const from = clock.now();
    const answer = on.agent([], { provider: overLiteLLM(server) }).run('Hi');
    await clock.whenPending();
    await server.whenIdle();
    await passing(clock, answer);
    expect(clock.now() - from).toBeGreaterThanOrEqual(7_000);
  });

  it('U-07 are made once with retry: null, and where the failure would not pass', async () => {
    const server = await serving([busy(), { status: 401 }]);
    const provider = overLiteLLM(server);
    await expect(on.agent([], { provider, retry: null }).run('Hi')).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    await expect(on.agent([], { provider }).run('Hi')).rejects.toMatchObject({ code: 'PROVIDER_AUTH' });
  });

  it('U-07 do not multiply with a policy of the provider', async () => {
    const server = await serving([busy(), busy()]);
    const provider = retry({ maxRetries: 1, initialDelayMs: 0, clock: on.bench.clock })(overLiteLLM(server));
    const failing = on.agent([], { provider }).run('Hi');
    await expect(passing(on.bench.clock, failing)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    const twice = () => agent({ provider, retry: { maxRetries: 2 } });
    expect(twice).toThrow(expect.objectContaining({ code: 'INVALID_CONFIG' }));
  });

  it('U-07 stop at once when the turn is cancelled in a pause', async () => {
    const ada = on.agent([{ text: 'Hm', error: down }]);
    const turn = ada.startTurn('Hi');
    const reader = watch(turn);
    await reader.until('internal:llm-attempt-discarded');
    await turn.cancel();
    await reader.ended;
    expect(turn.state?.outcome).toMatchObject({ state: 'canceled' });
  });

  it('U-07 of sub-agents are made again too, and their options are checked', async () => {
    const bo = asking(on.bench.model([{ error: down }, { text: 'Deep.' }]), { id: 'bo' });
    const calls = [{ name: 'bo', arguments: { message: 'Go on.' } }];
    const ada = on.agent([{ toolCalls: calls }, { text: 'So.' }], { toolProviders: [agentTools([bo])] });
    const turn = ada.startTurn('Hi');
    const reader = watch(turn);
    expect((await passing(on.bench.clock, turn.result())).text).toBe('So.');
    const inner = ofKind(reader.events, 'internal:sub-agent').map(({ event }) => event.kind);
    expect(inner).toContain('internal:llm-attempt-discarded');
    expect(() => asking(on.bench.model([]), { retry: { maxRetries: -1 } })).toThrow('maxRetries');
  });
});
