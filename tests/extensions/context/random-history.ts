import fc from 'fast-check';
import type { Message, ToolCall } from 'millrace';

const text = fc.string({ maxLength: 12 });

/** Messages of a plain conversation: batches of parallel calls, each with its results; ids repeat from batch to batch. */
export const cleanHistory: fc.Arbitrary<readonly Message[]> = fc
  .tuple(fc.boolean(), fc.array(cleanPart(), { maxLength: 12 }))
  .map(([instructed, parts]) => [
    ...(instructed ? [{ role: 'system' as const, content: 'Be brief.' }] : []),
    ...parts.flat(),
  ]);

/** The same, with messages lost, doubled and put in at random places, so that results and calls do not match. */
export const anyHistory: fc.Arbitrary<readonly Message[]> = fc
  .tuple(
    cleanHistory,
    fc.array(fc.tuple(fc.nat(), fc.constantFrom('drop', 'double', 'system', 'orphan')), { maxLength: 4 }),
  )
  .map(([messages, flaws]) => flaws.reduce((all, [at, flaw]) => withFlaw(all, at % (all.length + 1), flaw), messages));

function cleanPart(): fc.Arbitrary<readonly Message[]> {
  return fc.oneof(
    text.map((content): readonly Message[] => [{ role: 'user', content }]),
    text.map((content): readonly Message[] => [{ role: 'assistant', content }]),
    fc
      .tuple(fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1, maxLength: 4 }), text)
      .map(([ids, content]): readonly Message[] => [
        { role: 'assistant', content: null, toolCalls: ids.map(callOf) },
        ...ids.map((id) => ({ role: 'tool' as const, toolCallId: id, content })),
      ]),
  );
}

function callOf(id: string): ToolCall {
  return { id, type: 'function', function: { name: 'look', arguments: '{"at":"it"}' } };
}

function withFlaw(messages: readonly Message[], at: number, flaw: string): readonly Message[] {
  const message = messages[at];
  if (flaw === 'drop') return messages.toSpliced(at, 1);
  if (flaw === 'system') return messages.toSpliced(at, 0, { role: 'developer', content: 'And polite.' });
  if (flaw === 'orphan') return messages.toSpliced(at, 0, { role: 'tool', toolCallId: 'z', content: 'whose?' });
  return message ? messages.toSpliced(at, 0, message) : messages;
}
