import type { StatusUpdateEvent } from '../core/contracts/index.ts';

/** What the process says and answers at the end. */
export interface Ending {
  readonly exitCode: number;
  /** Absent where nothing has to be said. */
  readonly sentence?: string;
  /** The turn can be resumed. */
  readonly suspended?: true;
}

export interface EndingCircumstances {
  /** Of the signal that interrupted the turn. */
  readonly interrupted?: number | undefined;
  /** stdout was closed. */
  readonly readerLeft: boolean;
}

/** The turn waits for somebody, and can be resumed. */
const suspended = 3;

/** As a shell reports a process that SIGPIPE ended. */
const brokenPipe = 141;

/** How a command ends after its turn ended with that status. */
export function endingOf(final: StatusUpdateEvent | undefined, circumstances: EndingCircumstances): Ending {
  const { interrupted, readerLeft } = circumstances;
  switch (final?.status.state) {
    case 'completed':
      return { exitCode: readerLeft ? brokenPipe : 0 };
    case 'canceled':
      if (interrupted !== undefined) return { exitCode: interrupted, sentence: 'cancelled' };
      if (readerLeft) return { exitCode: brokenPipe };
      return { exitCode: 1, sentence: `cancelled: ${final.reason ?? 'no reason was given'}` };
    case 'failed':
      return { exitCode: interrupted ?? 1, sentence: failure(final) };
    case 'input-required':
    case 'auth-required':
      return { exitCode: suspended, sentence: suspension(final), suspended: true };
    default:
      return { exitCode: 1, sentence: 'the turn ended without saying how' };
  }
}

function failure(final: StatusUpdateEvent): string {
  return final.error === undefined ? `failed: ${final.reason ?? 'unknown'}` : sentenceOf(final.error);
}

/** An error in one sentence, with its code. */
export function sentenceOf(error: { readonly code: string; readonly message: string }): string {
  return `${error.message.trim().replace(/\.$/, '')} (${error.code})`;
}

function suspension({ questions = [], reason }: StatusUpdateEvent): string {
  if (questions.length === 0) return `the turn is suspended: ${reason ?? 'it was paused'}`;
  return questions.length === 1 ? 'the turn waits for an answer' : `the turn waits for ${questions.length} answers`;
}
