import { describe, expect, it } from '@jest/globals';
import type { StatusUpdateEvent } from 'millrace';
import { endingOf, sentenceOf } from 'millrace/internals';

function final(state: StatusUpdateEvent['status']['state'], more: Partial<StatusUpdateEvent> = {}): StatusUpdateEvent {
  const timestamp = '2026-01-01T00:00:00.000Z';
  const status = { state, timestamp };
  return { kind: 'status-update', taskId: 't', contextId: 'c', agentId: 'a', timestamp, status, final: true, ...more };
}

const error = { code: 'PROVIDER_AUTH', message: 'The model server refused the key.' } as const;
const question = { id: '1:0', callId: '1:0', kind: 'approval', toolName: 'remove', prompt: 'Delete it?' } as const;

describe('endingOf', () => {
  it.each([
    ['completed', final('completed'), {}, { exitCode: 0 }],
    ['completed, though interrupted too late', final('completed'), { interrupted: 130 }, { exitCode: 0 }],
    ['Ctrl-C', final('canceled'), { interrupted: 130 }, { exitCode: 130, sentence: 'cancelled' }],
    ['SIGTERM', final('canceled'), { interrupted: 143 }, { exitCode: 143, sentence: 'cancelled' }],
    ['a reader who left', final('canceled'), { readerLeft: true }, { exitCode: 141 }],
    [
      'cancelled by somebody else',
      final('canceled', { reason: 'too slow' }),
      {},
      { exitCode: 1, sentence: 'cancelled: too slow' },
    ],
    [
      'failed',
      final('failed', { error }),
      {},
      { exitCode: 1, sentence: 'The model server refused the key (PROVIDER_AUTH)' },
    ],
    [
      'suspended',
      final('input-required', { questions: [question] }),
      {},
      { exitCode: 3, sentence: 'the turn waits for an answer', suspended: true },
    ],
    [
      'suspended with several questions',
      final('auth-required', { questions: [question, question] }),
      {},
      { exitCode: 3, sentence: 'the turn waits for 2 answers', suspended: true },
    ],
    [
      'paused',
      final('input-required', { questions: [], reason: 'lunch' }),
      {},
      { exitCode: 3, sentence: 'the turn is suspended: lunch', suspended: true },
    ],
    ['no final event', undefined, {}, { exitCode: 1, sentence: 'the turn ended without saying how' }],
  ])('%s', (_how, event, circumstances, expected) => {
    expect(endingOf(event, { readerLeft: false, ...circumstances })).toEqual(expected);
  });
});

it('an error is one sentence with its code', () => {
  expect(sentenceOf({ code: 'INTERNAL', message: ' Oh no. ' })).toBe('Oh no (INTERNAL)');
});
