/** How many characters a key has at least: shorter ones can be guessed. */
export const shortestKey = 16;
