from hardmax.papers.ledger import Ledger as Ledger
from hardmax.papers.ledger import check_claims as check_claims
from hardmax.papers.recipes import Reproduction as Reproduction
from hardmax.papers.recipes import reproduce as reproduce
