import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { AgentLoopError } from 'millrace';
import { replay, replayCall, replayText } from './piecewise.ts';
import { event } from './raw-server.ts';

/** A good answer or a coded error of the provider's; anything else fails the test. */
async function expectOutcome(pending: Promise<unknown>): Promise<void> {
  const error = await pending.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error === undefined) return;
  if (!AgentLoopError.isInstance(error)) throw error;
  expect(error.code).toMatch(
    /^PROVIDER_(PROTOCOL|STREAM_CLOSED|SERVER|RATE_LIMIT|AUTH|NOT_FOUND|BAD_REQUEST|TIMEOUT|FAILED)$/,
  );
}

const json = fc.jsonValue({ maxDepth: 3 });
const text = fc.oneof(fc.string(), fc.constant(null));

/** Members of the right names with values that are right, wrong or absent. */
const call = fc.record(
  {
    index: fc.oneof(fc.nat(3), json),
    id: fc.oneof(text, json),
    function: fc.oneof(fc.record({ name: text, arguments: fc.oneof(text, json) }), json),
  },
  { requiredKeys: [] },
);
const delta = fc.record(
  {
    content: fc.oneof(text, json),
    reasoning: fc.oneof(text, json),
    reasoning_content: fc.oneof(text, json),
    refusal: fc.oneof(text, json),
    tool_calls: fc.oneof(fc.array(fc.oneof(call, json)), json),
    function_call: fc.oneof(fc.record({ name: text, arguments: text }), json),
  },
  { requiredKeys: [] },
);
const choice = fc.record(
  {
    index: fc.oneof(fc.constant(0), json),
    delta: fc.oneof(delta, json),
    message: fc.oneof(delta, json),
    finish_reason: fc.oneof(fc.constantFrom('stop', 'tool_calls', null), json),
  },
  { requiredKeys: [] },
);
const chunk = fc.record(
  {
    id: json,
    model: json,
    usage: json,
    x_groq: json,
    error: fc.oneof({ weight: 5, arbitrary: fc.constant(null) }, json),
    choices: fc.oneof(fc.array(fc.oneof(choice, json)), json),
  },
  { requiredKeys: ['choices'] },
);

describe('whatever a server sends', () => {
  it('as the events of a stream is an answer or a coded error', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof({ weight: 4, arbitrary: chunk }, json)), (events) =>
        expectOutcome(replayText(events.map((value) => event(JSON.stringify(value))).join(''))),
      ),
      { numRuns: 400 },
    );
  });

  it('as one body of JSON is an answer or a coded error', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(chunk, json), (body) => expectOutcome(replayCall(JSON.stringify(body)))),
      { numRuns: 400 },
    );
  });

  it('as bytes is an answer or a coded error', async () => {
    const bytes = fc.array(
      fc.oneof(
        fc.uint8Array(),
        fc.string().map((line) => new TextEncoder().encode(`data: ${line}\n\n`)),
      ),
    );
    await fc.assert(
      fc.asyncProperty(bytes, (pieces) => expectOutcome(replay(pieces))),
      { numRuns: 200 },
    );
  });
});
