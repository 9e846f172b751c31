import { createHash } from 'node:crypto';
import { AgentCard } from '@a2a-js/sdk';
import { legacyAgentCardRouter } from '@a2a-js/sdk/compat/v0_3/server/express';
import type { Request, RequestHandler, Response } from 'express';
import { Router } from 'express';
import type { CardDesk } from '../card-desk.ts';

/** Where the card is, since 0.3, and before it. */
export const cardPaths = ['/.well-known/agent-card.json', '/.well-known/agent.json'];

const maxAgeSeconds = 300;

/**
 * Serves the card in the form of the version that is asked for: without one that is 0.3, which names the addresses of 1.0 too. A
 * signature is over the card of 1.0, so that of 0.3 has none. Caches may keep it for five minutes.
 */
export function cardRoute(cards: CardDesk): RequestHandler {
  const router = Router();
  router.use((_request, response, next) => {
    if (cards.isOpen) next();
    else response.status(503).set('Retry-After', '1').json({ error: 'The server starts.' });
  });
  const unsigned = async () => ({ ...cards.card, signatures: [] });
  router.use(legacyAgentCardRouter({ agentCardProvider: unsigned, cache: { maxAge: maxAgeSeconds } }));
  router.get('/', (request: Request, response: Response) => {
    const text = JSON.stringify(AgentCard.toJSON(cards.card));
    const etag = `W/"${createHash('sha256').update(text).digest('hex').slice(0, 16)}"`;
    response.set({ ETag: etag, Vary: 'A2A-Version', 'Cache-Control': `public, max-age=${maxAgeSeconds}` });
    if (request.fresh) response.status(304).end();
    else response.type('application/json').send(text);
  });
  return router;
}
