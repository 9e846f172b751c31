import { Router } from 'express';
import { type Clock, systemClock, type TaskStateStore } from '../../../core/contracts/index.ts';
import type { ServerPhase } from './admission.ts';

export interface HealthOptions {
  readonly store: TaskStateStore;
  readonly phase: () => ServerPhase;
  readonly clock?: Clock;
}

/** How long an answer of the store counts. */
const freshMs = 1_000;
/** How long the store may take for one. */
const deadlineMs = 5_000;

/**
 * `/healthz`: 200 while the process answers. `/readyz`: 200 while it can serve, 503 before it has started, once it closes and while the store does not answer.
 * Neither asks who is asking; the store is asked once a second at most. What it says is for logs, not for strangers.
 */
export function healthRoutes({ store, phase, clock = systemClock }: HealthOptions): Router {
  const isReachable = reachable(store, clock);
  const router = Router();
  router.get('/healthz', (_request, response) => void response.json({ status: 'ok' }));
  router.get('/readyz', async (_request, response) => {
    const now = phase();
    const reason = now !== 'open' ? now : (await isReachable()) ? undefined : 'store';
    response.set('Cache-Control', 'no-store');
    if (reason === undefined) response.json({ status: 'ok' });
    else response.status(503).json({ status: 'unavailable', reason });
  });
  return router;
}

function reachable(store: TaskStateStore, clock: Clock): () => Promise<boolean> {
  let asked: { readonly at: number; readonly answer: Promise<boolean> } | undefined;
  return () => {
    if (asked === undefined || clock.now() - asked.at >= freshMs) {
      asked = { at: clock.now(), answer: answers(store, clock) };
    }
    return asked.answer;
  };
}

/** Warnings are about how the store is configured; a store that gives some is reachable. */
async function answers(store: TaskStateStore, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.schedule(deadlineMs, () => resolve(false));
    const settle = (answer: boolean) => {
      cancel();
      resolve(answer);
    };
    Promise.resolve()
      .then(() => store.check())
      .then(
        () => settle(true),
        () => settle(false),
      );
  });
}
