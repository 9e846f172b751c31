"""Signs and verifies cards with the helpers of the official Python SDK 1.x: `card.py sign|verify key.pem`, the card as JSON on stdin.

`sign` prints the signed card. `verify` prints what the verifier says: `valid`, or the name of its error.
"""

import json
import sys

from a2a.types import AgentCard
from a2a.utils.signing import SignatureVerificationError, create_agent_card_signer, create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict

command, path = sys.argv[1:]
with open(path) as file:
    key = file.read()
card = ParseDict(json.load(sys.stdin), AgentCard(), ignore_unknown_fields=True)

if command == 'sign':
    sign = create_agent_card_signer(key, {'alg': 'ES256', 'kid': 'card-1', 'typ': 'JOSE', 'jku': None})
    print(json.dumps(MessageToDict(sign(card))))
else:
    try:
        create_signature_verifier(lambda kid, jku: key, ['ES256'])(card)
        print('valid')
    except SignatureVerificationError as error:
        print(type(error).__name__)
