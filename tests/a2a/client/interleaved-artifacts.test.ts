import { expect, it } from '@jest/globals';
import { answerStream, connectTo, type Json, wireServers, wireStatus, wireTask } from './wire-server.ts';

const serving = wireServers();

const pieces = 3_000;
const piece = 'x'.repeat(100);

const written = (artifactId: string, text: string, append: boolean): Json => ({
  artifactUpdate: { taskId: 'remote-1', contextId: 'context-1', artifact: { artifactId, parts: [{ text }] }, append },
});

// Each piece of the first artifact comes before what was shown of the second: the whole text would be shown anew with each of them.
it.each([
  ['that keeps the task', true],
  ['that keeps no artifacts', false],
])(
  'a remote agent shows artifacts that are written at the same time in linear space, of a server %s',
  async (_what, isKept) => {
    const updates = Array.from({ length: pieces }, (_, index) => [
      written('a', piece, index > 0),
      written('b', 'y', index > 0),
    ]).flat();
    const whole = `${piece.repeat(pieces)}\n\n${'y'.repeat(pieces)}`;
    const artifacts = [
      { artifactId: 'a', parts: [{ text: piece.repeat(pieces) }] },
      { artifactId: 'b', parts: [{ text: 'y'.repeat(pieces) }] },
    ];
    const server = await serving({
      SendStreamingMessage: answerStream(...updates, wireStatus('COMPLETED')),
      GetTask: (call) => call.result(wireTask('COMPLETED', [], isKept ? { artifacts } : {})),
    });
    const turn = (await connectTo(server)).startTurn('Go.');
    let sent = 0;
    let shown = '';
    for await (const event of turn) {
      if (event.kind !== 'artifact-update') continue;
      const text = event.artifact.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
      sent += text.length;
      shown = event.append ? shown + text : text;
    }
    expect((await turn.result()).text).toBe(whole);
    expect(shown).toBe(whole);
    expect(sent).toBeLessThan(10 * whole.length);
  },
);

it('a remote agent shows at once what a server writes that sends its whole text with each update', async () => {
  const sizes = Array.from({ length: 300 }, (_, index) => (index + 1) * 100);
  const server = await serving({
    SendStreamingMessage: answerStream(
      ...sizes.map((size) => written('a', 'x'.repeat(size), false)),
      wireStatus('COMPLETED'),
    ),
    GetTask: (call) => call.result(wireTask('COMPLETED', ['x'.repeat(30_000)])),
  });
  const lengths: number[] = [];
  for await (const event of (await connectTo(server)).startTurn('Go.'))
    if (event.kind === 'artifact-update')
      lengths.push(event.artifact.parts.map((part) => (part.kind === 'text' ? part.text.length : 0))[0] ?? 0);
  expect(lengths.filter((length) => length > 0)).toEqual(sizes.map(() => 100));
});
