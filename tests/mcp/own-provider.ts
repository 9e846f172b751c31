import {
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type OAuthTokens,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';

/** A provider of the user's own, which keeps all in memory, and shows where the user has to go. */
export class OwnProvider implements OAuthClientProvider {
  readonly redirectUrl = 'http://127.0.0.1:9/callback';
  readonly clientMetadata = { client_name: 'own', redirect_uris: [this.redirectUrl] };
  address: URL | undefined;
  #client: OAuthClientInformationMixed | undefined;
  #tokens: OAuthTokens | undefined;
  #verifier = '';
  #discovery: OAuthDiscoveryState | undefined;

  clientInformation = () => this.#client;
  saveClientInformation = (client: OAuthClientInformationMixed) => {
    this.#client = client;
  };
  tokens = () => this.#tokens;
  saveTokens = (tokens: OAuthTokens) => {
    this.#tokens = tokens;
  };
  saveCodeVerifier = (verifier: string) => {
    this.#verifier = verifier;
  };
  codeVerifier = () => this.#verifier;
  saveDiscoveryState = (discovery: OAuthDiscoveryState) => {
    this.#discovery = discovery;
  };
  discoveryState = () => this.#discovery;
  redirectToAuthorization = (address: URL) => {
    this.address = address;
  };

  /** Does what an application does once the browser comes back. */
  async finish(server: string, callback: string): Promise<void> {
    const transport = new StreamableHTTPClientTransport(new URL(server), { authProvider: this });
    await transport.finishAuth(new URL(callback).searchParams);
  }
}
