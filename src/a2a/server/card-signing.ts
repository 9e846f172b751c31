import { AgentCard, generateAgentCardSignature } from '@a2a-js/sdk';
import type { CryptoKey, JWK, KeyObject } from 'jose';

/** The key that signs the card, so that whoever knows its public half can tell that the card is yours. */
export interface CardSigning {
  /** The private key. */
  readonly key: CryptoKey | KeyObject | JWK;
  /** `ES256`, `EdDSA`, `RS256`, … */
  readonly algorithm: string;
  /** Tells keys apart. */
  readonly keyId: string;
  /** Where the public key is published, as a JWK set. */
  readonly jwksUrl?: string;
}

/** The card with a signature (JWS) over its canonical form. */
export async function signedCard(card: AgentCard, signing: CardSigning | undefined): Promise<AgentCard> {
  if (signing === undefined) return card;
  const { key, algorithm, keyId, jwksUrl } = signing;
  const header = { alg: algorithm, kid: keyId, typ: 'JOSE', ...(jwksUrl !== undefined && { jku: jwksUrl }) };
  // The package signs the JSON of a card; of the card itself it would leave out the security schemes.
  const { signatures } = await generateAgentCardSignature(key, header)(Object(AgentCard.toJSON(card)));
  return { ...card, signatures };
}
