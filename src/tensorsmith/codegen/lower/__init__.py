"""From blocks to flat loops that the code generators can print."""
