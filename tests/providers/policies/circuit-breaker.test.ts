import { describe, expect, it } from '@jest/globals';
import { circuitBreaker, retry } from 'millrace';
import { fakeClock, scriptedLLM } from 'millrace/testing';
import { failure, hi, streamOf } from './scripted-calls.ts';

const down = { error: failure('PROVIDER_SERVER', { status: 503 }) };
const refused = { code: 'PROVIDER_UNREACHABLE', message: expect.stringMatching(/circuit to m is open/) };
const info = { model: 'm' };

describe('circuitBreaker', () => {
  it('opens after so many failures in a row, makes no request meanwhile, and closes with an answer', async () => {
    const clock = fakeClock();
    const llm = scriptedLLM([down, down, { text: 'well again' }, down, { text: 'still closed' }], { info });
    const provider = circuitBreaker({ failures: 2, openMs: 1_000, clock })(llm);
    for (let n = 0; n < 2; n++) await expect(provider.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    clock.advance(400);
    await expect(provider.call(hi)).rejects.toMatchObject({ ...refused, retryable: true, retryAfterMs: 600 });
    expect(llm.calls).toHaveLength(2);
    clock.advance(600);
    expect((await provider.call(hi)).message.content).toBe('well again');
    await expect(provider.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    expect((await provider.call(hi)).message.content).toBe('still closed');
  });

  it('lets one call try, refuses the others until it is known, and opens again where it fails', async () => {
    const clock = fakeClock();
    const llm = scriptedLLM([down, { never: true }, down, { text: 'well again' }], { info });
    const provider = circuitBreaker({ failures: 1, openMs: 1_000, clock })(llm);
    await expect(provider.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    clock.advance(1_000);
    const trial = streamOf(provider).subscribe();
    await expect(provider.call(hi)).rejects.toMatchObject({ ...refused, retryAfterMs: undefined });
    trial.unsubscribe();
    await expect(provider.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    await expect(provider.call(hi)).rejects.toMatchObject({ ...refused, retryAfterMs: 1_000 });
    clock.advance(1_000);
    expect((await provider.call(hi)).message.content).toBe('well again');
  });

  it('counts neither the request’s own faults nor calls that are left', async () => {
    const wrong = { error: failure('PROVIDER_BAD_REQUEST', { status: 400, retryable: false }) };
    const provider = circuitBreaker({ failures: 1, clock: fakeClock() })(
      scriptedLLM([wrong, { never: true }, { text: 'fine' }]),
    );
    await expect(provider.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_BAD_REQUEST' });
    streamOf(provider).subscribe().unsubscribe();
    expect((await provider.call(hi)).message.content).toBe('fine');
  });

  it('by default opens after five failures, for 30 s', async () => {
    const clock = fakeClock();
    const provider = circuitBreaker({ clock })(scriptedLLM(Array(5).fill(down), { info }));
    for (let n = 0; n < 5; n++) await expect(provider.call(hi)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    await expect(provider.call(hi)).rejects.toMatchObject({ ...refused, retryAfterMs: 30_000 });
  });

  it('inside of retry makes it wait until the circuit may close', async () => {
    const clock = fakeClock();
    const llm = scriptedLLM([down, { text: 'well again' }], { info });
    const provider = retry({ clock, initialDelayMs: 0 })(circuitBreaker({ failures: 1, openMs: 5_000, clock })(llm));
    const call = provider.call(hi);
    await clock.whenPending();
    clock.advance(0);
    await clock.whenPending();
    clock.advance(4_999);
    expect(llm.calls).toHaveLength(1);
    clock.advance(1);
    expect((await call).message.content).toBe('well again');
  });

  it('keeps a circuit for each provider', async () => {
    const policy = circuitBreaker({ failures: 1, clock: fakeClock() });
    await expect(policy(scriptedLLM([down])).call(hi)).rejects.toMatchObject({ code: 'PROVIDER_SERVER' });
    expect((await policy(scriptedLLM([{ text: 'fine' }])).call(hi)).message.content).toBe('fine');
  });
});
