import { fakeClock } from 'millrace/testing';
import type { Pause } from './case-server.ts';

/** A clock for the provider and the agent of a case, which only the pauses of its server move. */
export function timeLapse() {
  const clock = fakeClock();
  let receivedBytes = 0;
  let look = (): void => undefined;

  /** Counts what the caller has read of the response. */
  const countingFetch: typeof fetch = async (input, init) => {
    receivedBytes = 0;
    const response = await fetch(input, init);
    const counted = response.body?.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform(piece, controller) {
          controller.enqueue(piece);
          receivedBytes += piece.length;
          look();
        },
      }),
    );
    return new Response(counted, response);
  };

  const pause: Pause = async (sentBytes, ms) => {
    await new Promise<void>((resolve) => {
      look = () => {
        if (receivedBytes >= sentBytes) resolve();
      };
      look();
    });
    // The reader of the counted body takes the piece in a microtask.
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(ms);
  };

  return { options: { clock, fetch: countingFetch }, clock, pause };
}
