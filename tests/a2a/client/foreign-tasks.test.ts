import { describe, expect, it } from '@jest/globals';
import { textsOf, watch } from '../../core/watch-events.ts';
import {
  answerCompleted,
  answerStream,
  connectTo,
  type Json,
  type WireAnswers,
  wireServers,
  wireStatus,
  wireTask,
  wireText,
} from './wire-server.ts';

const serving = wireServers();

/** The same, of another task. */
const other = (json: Json): Json => JSON.parse(JSON.stringify(json).replaceAll('remote-1', 'remote-2'));

const foreign = { task: wireTask('COMPLETED', ['Of somebody else.']) };

async function ended(answers: WireAnswers) {
  const turn = (await connectTo(await serving(answers))).startTurn('Go.');
  const reader = watch(turn);
  const { text } = await turn.result();
  return { text, shown: Object.values(textsOf(reader.events)) };
}

describe('a remote agent of a server that speaks of other tasks', () => {
  it.each([
    ['a piece of text', wireText('Of somebody else.')],
    ['an end', wireStatus('FAILED')],
    ['a whole task', foreign],
  ])('shows nothing of %s of another task in the stream of its own', async (_what, update) => {
    const SendStreamingMessage = answerStream(
      wireText('One ', false),
      other(update),
      wireText('two.'),
      wireStatus('COMPLETED'),
    );
    const end = await ended({ SendStreamingMessage, GetTask: answerCompleted('One two.') });
    expect(end).toEqual({ text: 'One two.', shown: ['One two.'] });
  });

  it('keeps what was streamed where it gets another task at the end', async () => {
    const SendStreamingMessage = answerStream(wireText('One two.', false), wireStatus('COMPLETED'));
    const end = await ended({ SendStreamingMessage, GetTask: (call) => call.result(other(foreign.task)) });
    expect(end).toEqual({ text: 'One two.', shown: ['One two.'] });
  });

  it('fails where it has only another task', async () => {
    const end = ended({
      SendStreamingMessage: answerStream(wireText('One ', false)),
      GetTask: (call) => call.result(other(foreign.task)),
      CancelTask: (call) => call.result(wireTask('CANCELED')),
    });
    await expect(end).rejects.toMatchObject({
      code: 'PROVIDER_PROTOCOL',
      message: expect.stringMatching(/answers with another task than it was asked for: check url/),
    });
  });
});
