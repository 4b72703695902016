"""The loop: propose, verify, accept, commit; and the protocols of those who propose and decide."""
